"""Messaging that balances itself, for Python and Spark."""
