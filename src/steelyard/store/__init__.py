"""The broker's memory: a log, the indexes over it, and the small state beside it. A disk is handed in."""
