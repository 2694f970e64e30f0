"""Message store: a commit log, consume queues over it, and the small state beside it. The disk is an argument."""
