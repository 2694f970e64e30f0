"""`steelyard doctor`: why does it not work, cause by cause, with what to do next."""
