"""What a group wants of a topic, compiled: tag hashes to look up in an index, or a SQL92 condition over properties."""
