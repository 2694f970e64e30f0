"""How the demo ended: the numbers of its last lines, and a sentence for each promise that was not kept."""

from collections.abc import Iterator
from dataclasses import dataclass

from steelyard.cli.demo.lake import Lake
from steelyard.cli.demo.proof import Verdict
from steelyard.cli.frame.counting import counted

__all__ = ["Outcome", "SparkOutcome"]


@dataclass(frozen=True, slots=True)
class SparkOutcome:
    """What Spark has of the messages."""

    lake: Lake
    tabulated: int
    """How many messages its table of windows counts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that was counted."""

    verdict: Verdict
    exit_codes: tuple[int, ...]
    """Of the members that were told to leave."""
    spark: SparkOutcome | None
    """Nothing if there is no Spark."""

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Return what is shown at the end."""
        yield "sent", self.verdict.sent
        yield "handled", self.verdict.handled
        yield "lost", self.verdict.lost
        yield "handled twice in planned changes", self.verdict.twice
        yield "handled twice because of the kill", self.verdict.twice_by_crash
        if self.spark is not None:
            yield "rows in Parquet", self.spark.lake.messages
            yield "rows in Parquet that are there twice", self.spark.lake.messages - self.spark.lake.places
            yield "messages in Spark's windowed table", self.spark.tabulated

    def shortcomings(self) -> Iterator[str]:
        """Tell each promise that was not kept; none is the proof."""
        verdict, spark = self.verdict, self.spark
        if not verdict.sent:
            yield "no message was sent"
        if verdict.failed:
            yield f"{counted(verdict.failed, 'send')} failed"
        if verdict.lost:
            yield f"{counted(verdict.lost, 'message')} of {verdict.sent} never handled"
        if verdict.twice:
            yield f"{counted(verdict.twice, 'message')} handled twice, which no kill explains"
        if any(self.exit_codes):
            yield f"members that were told to leave ended with {', '.join(map(str, self.exit_codes))}"
        if spark is not None:
            yield from _of_spark(spark, verdict.sent)


def _of_spark(spark: SparkOutcome, sent: int) -> Iterator[str]:
    lake = spark.lake
    if lake.places != sent:
        yield f"Parquet has {lake.places} of {counted(sent, 'message')}"
    if lake.messages != lake.places:
        yield f"{counted(lake.messages - lake.places, 'row')} in Parquet twice"
    if spark.tabulated != sent:
        yield f"Spark's windowed table counts {spark.tabulated} of {counted(sent, 'message')}"
