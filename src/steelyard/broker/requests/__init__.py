"""Request handlers of a broker, one file per family of requests, with the facts of the protocol on top of each."""
