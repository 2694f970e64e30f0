"""`steelyard bench`: how quick a cluster is."""
