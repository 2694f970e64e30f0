"""Diagnostics of a cluster from outside, server by server."""
