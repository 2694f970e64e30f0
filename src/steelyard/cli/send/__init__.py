"""`steelyard send`: messages from the command line and through pipes."""
