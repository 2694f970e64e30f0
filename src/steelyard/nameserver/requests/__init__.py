"""What a name server is asked, one file a family, with the facts of the protocol on top of each."""
