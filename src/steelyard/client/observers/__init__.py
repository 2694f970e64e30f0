"""Observers of clients: one hook for traces, metrics and anything else."""
