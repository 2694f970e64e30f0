"""How Spark finds the source by itself: it looks into every module whose name begins with ``pyspark_``."""

from steelyard.spark.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
