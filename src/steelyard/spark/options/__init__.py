"""What a user may say to the source and the sink, declared once and checked together."""
