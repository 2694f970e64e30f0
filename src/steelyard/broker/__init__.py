"""The broker's core: a command and the time in, replies out. It touches nothing but the store it was given."""
