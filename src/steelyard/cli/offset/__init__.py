"""`steelyard offset`: how far groups are, and moving them."""
