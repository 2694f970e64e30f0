"""`steelyard broker`: one file per part of it."""
