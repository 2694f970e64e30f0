"""A producer's choices: which queue a message goes to, which brokers to avoid, and whether to try again."""
