"""PullConsumer: the user's code polls for messages."""
