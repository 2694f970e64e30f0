"""Bulk transfer in one thread: reads offset ranges and sends batches, with many requests in flight."""
