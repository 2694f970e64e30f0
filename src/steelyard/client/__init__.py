"""The live client: hands, on sockets and threads, for the rules of `balance`."""
