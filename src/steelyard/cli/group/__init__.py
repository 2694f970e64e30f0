"""`steelyard group`: who has which queue, and why."""
