"""A template for Spark Declarative Pipelines: a small project that reads a topic, sums it up and writes to another."""
