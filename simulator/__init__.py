"""A seeded world in which the real cores run and things go wrong on purpose."""
