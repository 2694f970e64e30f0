"""`steelyard plan`: who would get which queue."""
