"""Known bugs that can be put back, to see that the checkers find them."""
