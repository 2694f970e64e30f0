"""From a share of a group's queues to the user's handlers."""
