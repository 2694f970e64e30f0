"""Clients: producers, consumers and admin on sockets and threads, by the rules of `balance`."""
