"""Consumer: a member of a group that gives messages to handlers."""
