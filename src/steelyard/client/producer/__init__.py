"""Producer: sends messages, with retries, batches, transactions and request-reply."""
