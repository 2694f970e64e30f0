"""`steelyard sim`: the made-up world."""
