"""The report as one tidy table: a row is one fact, so that several reports can be put together and compared.

| column | type | what |
|---|---|---|
| made_at | timestamp | when the report was made: the same in all of its rows |
| topic, group | string | what it is about; group is null if there is none |
| subject | string | about what: topic, queue, broker, key, step, member, look, holding, hand-over, overlap, change |
| name | string | which one: ``broker-a:3``, a key, a member's id; null where the time says which |
| at | timestamp | when, of subjects that have a time |
| measure | string | what was measured: messages, bytes, skew, lag, gap, moves … |
| value | double | how much; spans of time are milliseconds, shares go from 0 to 1 |
| text | string | what is no number: an owner, a reason |

Ids and keys stand here whole, as they are.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa

from steelyard.model import Queue
from steelyard.pipelines.report.skew import skew
from steelyard.pipelines.report.study import Study
from steelyard.pipelines.report.words import LAST_MS

__all__ = ["SCHEMA", "Fact", "as_table", "facts"]

_TIME = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
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


class Fact(NamedTuple):
    """One row."""

    subject: str
    name: str | None
    measure: str
    value: float | None = None
    text: str | None = None
    at_ms: int | None = None


def facts(study: Study) -> Iterator[Fact]:
    """Go through all that a report knows."""
    yield from _of_traffic(study)
    yield from _of_group(study)
    yield from _of_history(study)


def as_table(study: Study) -> pa.Table:
    """Return the facts as a table of Arrow."""
    rows = list(facts(study))
    made_at = _moment(study.at_ms)
    return pa.Table.from_pydict(
        {
            "made_at": [made_at] * len(rows),
            "topic": [_clean(study.topic)] * len(rows),
            "group": [_clean(study.group)] * len(rows),
            "subject": [row.subject for row in rows],
            "name": [_clean(row.name) for row in rows],
            "at": [None if row.at_ms is None else _moment(row.at_ms) for row in rows],
            "measure": [row.measure for row in rows],
            "value": [row.value for row in rows],
            "text": [_clean(row.text) for row in rows],
        },
        schema=SCHEMA,
    )


def _of_traffic(study: Study) -> Iterator[Fact]:
    traffic = study.traffic
    loads = {each.name: each.messages for each in traffic.queues}
    yield from _each(
        "topic",
        study.topic,
        messages=traffic.messages,
        bytes=traffic.body_bytes,
        queues=len(traffic.queues),
        skew=skew(loads).ratio,
        keys=traffic.distinct_keys,
        with_key=traffic.keyed,
    )
    lags, owners = study.lags(), study.owners()
    for each in traffic.queues:
        yield from _each("queue", each.name, messages=each.messages, bytes=each.body_bytes, lag=lags.get(each.queue))
        if each.heaviest is not None:
            yield Fact("queue", each.name, "heaviest key", each.heaviest.messages / each.messages, each.heaviest.key)
        yield from (Fact("queue", each.name, "owner", text=owner) for owner in owners.get(each.queue, ()))
    for broker in traffic.brokers:
        yield Fact(
            "broker", broker, "messages", sum(each.messages for each in traffic.queues if each.queue.broker == broker)
        )
    for key in traffic.keys:
        yield from _each("key", key.key, messages=key.messages, bytes=key.body_bytes, queues=key.queues)
        yield Fact("key", key.key, "mostly in", text=_name(key.mostly_in))
    for step in traffic.steps:
        yield Fact("step", step.broker, "messages", step.messages, at_ms=step.at_ms)
        yield Fact("step", step.broker, "bytes", step.body_bytes, at_ms=step.at_ms)


def _of_group(study: Study) -> Iterator[Fact]:
    members = study.members()
    if members:
        yield Fact("topic", study.topic, "skew of members", skew({each.id: each.messages for each in members}).ratio)
    for each in members:
        yield from _each(
            "member", each.id, queues=each.queues, messages=each.messages, bytes=each.body_bytes, lag=each.lag
        )
    for look in study.waiting:
        yield Fact("look", None, "lag", look.messages, at_ms=look.at_ms)


def _of_history(study: Study) -> Iterator[Fact]:
    told = study.history
    if told is None:
        return
    for held in told.holdings.values():
        for each in held:
            span = each.ended_ms - each.taken_ms
            yield Fact("holding", _name(each.queue), "held", span, each.member, at_ms=each.taken_ms)
    for over in told.hand_overs:
        name, gap = _name(over.queue), over.gap_ms
        yield Fact("hand-over", name, "gap", gap, over.why or None, at_ms=over.taken_ms)
        yield Fact("hand-over", name, "from", text=over.before, at_ms=over.taken_ms)
        yield Fact("hand-over", name, "to", text=over.after, at_ms=over.taken_ms)
    for both in told.overlaps:
        who = f"{both.before} and {both.after}"
        yield Fact("overlap", _name(both.queue), "two owners", both.span_ms, who, at_ms=both.start_ms)
    for change in told.changes:
        yield Fact("change", None, "moves", change.moves, change.cause, at_ms=change.start_ms)
        yield Fact("change", None, "least moves", change.least, at_ms=change.start_ms)
        yield Fact("change", None, "members", change.members, at_ms=change.start_ms)


def _each(subject: str, name: str, **measures: float | None) -> Iterable[Fact]:
    return (Fact(subject, name, what.replace("_", " "), much) for what, much in measures.items() if much is not None)


def _name(queue: Queue) -> str:
    return f"{queue.broker}:{queue.queue_id}"


def _moment(at_ms: int) -> datetime:
    at_ms = min(max(at_ms, 0), LAST_MS)
    return datetime.fromtimestamp(at_ms // 1_000, UTC).replace(microsecond=at_ms % 1_000 * 1_000)


def _clean(text: str | None) -> str | None:
    """Return a text that can be stored: half a pair of UTF-16, which JSON can say, cannot."""
    return None if text is None else text.encode("utf-8", "replace").decode()
