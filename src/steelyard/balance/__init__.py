"""Load balancing without I/O: assignment strategies, the members of consumer groups, and the sends of producers."""
