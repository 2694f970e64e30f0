"""Arrow's columns to the batches that brokers take, without a Python loop over rows."""
