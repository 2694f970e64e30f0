"""Topics on the command line."""
