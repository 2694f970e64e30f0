"""What can be asked of a broker, one file per family of requests, the protocol's facts on top of each."""
