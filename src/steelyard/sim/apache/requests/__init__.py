"""What is asked of the model of Apache's broker: one file per family of requests."""
