"""Sockets, event loops and the only clock of the house; `OSError` never leaves this room."""
