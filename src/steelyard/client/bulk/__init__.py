"""Much at once, in one thread: ranges of queues read, and batches sent, with many requests under way on few lines."""
