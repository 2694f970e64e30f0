"""`steelyard pipeline`: ready jobs on Spark."""
