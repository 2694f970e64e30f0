"""What tests of jobs share with those of the source: a cluster, and a topic of their own."""

from tests.spark.conftest import cluster, topic

__all__ = ["cluster", "topic"]
