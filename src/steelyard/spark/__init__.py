"""Topics as Spark's DataFrames, batch and streaming: ``format("rocketmq")``."""
