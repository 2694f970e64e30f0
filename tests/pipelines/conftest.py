"""What tests of jobs share with those of the source: Spark, a cluster, and a topic of their own."""

from tests.spark.conftest import cluster, spark, topic

__all__ = ["cluster", "spark", "topic"]
