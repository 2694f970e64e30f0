"""`steelyard access`: one file per part of it."""
