"""Bugs put back on purpose, to see that the simulator finds them."""
