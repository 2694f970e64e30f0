"""Sockets, event loops and clocks; `OSError` never leaves this package."""
