"""The driver's side of reading: which queues there are, from where to where, how much at a time, in which tasks."""
