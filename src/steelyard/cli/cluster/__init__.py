"""The whole of a cluster on the command line."""
