"""Processes: what runs the pure cores on real sockets and real files."""
