"""`steelyard consume`: messages as they come."""
