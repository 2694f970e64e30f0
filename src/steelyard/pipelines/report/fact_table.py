"""The report as one tidy table: a row is one fact, so that reports can be concatenated and compared.

| column | type | what |
|---|---|---|
| made_at | timestamp | when the report was made, the same in all of its rows |
| topic, group | string | its subject; group is null if there is none |
| subject | string | its kind: topic, queue, broker, key, step, member, look, holding, hand-over, overlap, change |
| name | string | its name: ``broker-a:3``, a key, a member's id; null if the time identifies it |
| at | timestamp | when, for subjects with a time |
| measure | string | messages, bytes, skew, lag, gap, moves … |
| value | double | the value; durations are milliseconds, shares are 0 to 1 |
| text | string | what is not a number: an owner, a reason |

Ids and keys are unabridged here.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from steelyard.diagnostics.topic import measure_skew
from steelyard.model import Queue
from steelyard.pipelines.report.contents import ReportContents
from steelyard.pipelines.report.ownership import to_datetime
from steelyard.pipelines.report.rebalance_history import OwnershipHistory

_TIME = pa.timestamp("ms", "UTC")
FACT_SCHEMA = pa.schema(
    [
        ("made_at", _TIME),
        ("topic", pa.string()),
        ("group", pa.string()),
        ("subject", pa.string()),
        ("name", pa.string()),
        ("at", _TIME),
        ("measure", pa.string()),
        ("value", pa.float64()),
        ("text", pa.string()),
    ]
)
"""The columns of the table."""


class ReportFact(NamedTuple):
    """One row."""

    subject: str
    name: str | None
    measure: str
    value: float | None = None
    text: str | None = None
    at_ms: int | None = None


def _report_facts(contents: ReportContents) -> Iterator[ReportFact]:
    """Yield all facts of a report."""
    yield from _traffic_facts(contents)
    yield from _group_facts(contents)
    yield from _history_facts(contents.history)


def fact_table(contents: ReportContents) -> pa.Table:
    """Return the facts as an Arrow table."""
    rows = list(_report_facts(contents))
    made_at = to_datetime(contents.at_ms)
    return pa.Table.from_pydict(
        {
            "made_at": [made_at] * len(rows),
            "topic": [_storable(contents.topic)] * len(rows),
            "group": [_storable(contents.group)] * len(rows),
            "subject": [row.subject for row in rows],
            "name": [_storable(row.name) for row in rows],
            "at": [None if row.at_ms is None else to_datetime(row.at_ms) for row in rows],
            "measure": [row.measure for row in rows],
            "value": [row.value for row in rows],
            "text": [_storable(row.text) for row in rows],
        },
        schema=FACT_SCHEMA,
    )


def _traffic_facts(contents: ReportContents) -> Iterator[ReportFact]:
    traffic = contents.traffic
    loads = {each.name: each.messages for each in traffic.queues}
    yield from _facts_of(
        "topic",
        contents.topic,
        messages=traffic.messages,
        bytes=traffic.body_bytes,
        queues=len(traffic.queues),
        skew=measure_skew(loads).ratio,
        keys=traffic.distinct_keys,
        with_key=traffic.keyed,
    )
    lags, owners = contents.lags(), contents.owners()
    for each in traffic.queues:
        yield from _facts_of(
            "queue", each.name, messages=each.messages, bytes=each.body_bytes, lag=lags.get(each.queue)
        )
        if each.heaviest is not None:
            yield ReportFact(
                "queue", each.name, "heaviest key", each.heaviest.messages / each.messages, each.heaviest.key
            )
        yield from (ReportFact("queue", each.name, "owner", text=owner) for owner in owners.get(each.queue, ()))
    for broker in traffic.brokers:
        yield ReportFact(
            "broker", broker, "messages", sum(each.messages for each in traffic.queues if each.queue.broker == broker)
        )
    for key in traffic.keys:
        yield from _facts_of("key", key.key, messages=key.messages, bytes=key.body_bytes, queues=key.queues)
        yield ReportFact("key", key.key, "mostly in", text=_queue_name(key.mostly_in))
    for step in traffic.steps:
        yield ReportFact("step", step.broker, "messages", step.messages, at_ms=step.at_ms)
        yield ReportFact("step", step.broker, "bytes", step.body_bytes, at_ms=step.at_ms)


def _group_facts(contents: ReportContents) -> Iterator[ReportFact]:
    members = contents.members()
    if members:
        yield ReportFact(
            "topic", contents.topic, "skew of members", measure_skew({each.id: each.messages for each in members}).ratio
        )
    for each in members:
        yield from _facts_of(
            "member", each.id, queues=each.queues, messages=each.messages, bytes=each.body_bytes, lag=each.lag
        )
    for sample in contents.lag_samples:
        yield ReportFact("look", None, "lag", sample.messages, at_ms=sample.at_ms)


def _history_facts(history: OwnershipHistory) -> Iterator[ReportFact]:
    for each in history.holdings:
        span = each.ended_ms - each.acquired_ms
        yield ReportFact("holding", _queue_name(each.queue), "held", span, each.member, at_ms=each.acquired_ms)
    for over in history.handovers:
        name, at_ms = _queue_name(over.after.queue), over.after.acquired_ms
        yield ReportFact("hand-over", name, "gap", over.gap_ms, over.after.why or None, at_ms=at_ms)
        yield ReportFact("hand-over", name, "from", text=over.before.member, at_ms=at_ms)
        yield ReportFact("hand-over", name, "to", text=over.after.member, at_ms=at_ms)
    for both in history.overlaps:
        name, who = _queue_name(both.after.queue), f"{both.before.member} and {both.after.member}"
        yield ReportFact("overlap", name, "two owners", both.span_ms, who, at_ms=both.after.acquired_ms)
    for change in history.changes:
        yield ReportFact("change", None, "moves", len(change.moves), change.cause, at_ms=change.start_ms)
        yield ReportFact("change", None, "least moves", change.minimum_moves, at_ms=change.start_ms)
        yield ReportFact("change", None, "members", change.members, at_ms=change.start_ms)


def _facts_of(subject: str, name: str, **measures: float | None) -> Iterable[ReportFact]:
    return (
        ReportFact(subject, name, what.replace("_", " "), much) for what, much in measures.items() if much is not None
    )


def _queue_name(queue: Queue) -> str:
    return f"{queue.broker}:{queue.queue_id}"


def _storable(text: str | None) -> str | None:
    """Return a text that can be stored: a lone surrogate, which JSON may contain, cannot."""
    return None if text is None else text.encode("utf-8", "replace").decode()
