"""Sockets, event loops and clocks; an error of the system leaves this package as one of ours."""
