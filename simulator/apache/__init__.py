"""Models of what is not ours: Apache's broker, and Java's push consumer."""
