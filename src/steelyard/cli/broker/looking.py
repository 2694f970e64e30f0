"""Looking at brokers: which there are, how one is in plain words, how far groups are on it, and how fast it stores."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.broker.noun import ReplicaId, app
from steelyard.cli.broker.showing import as_values, in_words
from steelyard.cli.broker.words import ago, release, share, span
from steelyard.cli.frame.arguments import BrokerName, InGroup, InTopic
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster

if TYPE_CHECKING:
    from steelyard.client.admin.broker_reports import Reports
    from steelyard.client.admin.brokers import GroupLag
    from steelyard.client.admin.cluster import Broker

_PROBES_MOST = 10_000


@app.verb("ls", "steelyard broker ls", "steelyard broker ls --output json")
@at_cluster
def _list(
    where: Where,
    out: Out,
    cluster: Annotated[str | None, typer.Option(help="Only this cluster.", show_default=False)] = None,
) -> None:
    """List brokers and how they are."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        if cluster is not None:
            admin.servers(cluster=cluster)  # says which there are, if there is no such cluster
        brokers = [each for each in admin.cluster() if cluster in (None, each.cluster)]
    columns = [
        Column("broker"),
        Column("cluster"),
        Column("address"),
        Column("version"),
        Column("up", right=True, show=span),
        Column("in_tps", "in/s", right=True, show="{:.1f}".format),
        Column("out_tps", "out/s", right=True, show="{:.1f}".format),
        Column("disk_used", "disk", right=True, show=share),
    ]
    if not out.is_table or any(len(each.addresses) > 1 for each in brokers):
        columns.append(Column("replicas", right=True, show=lambda ids: str(len(ids))))
    out.rows(columns, map(_row, brokers))
    for each in brokers:
        for problem in (each.problem, *_problems(each.reports)):
            if problem is not None:
                note(f"{each.name}: {problem}")


def _problems(reports: "Reports | None") -> tuple[str | None, ...]:
    if reports is None:
        return ()
    return (None if reports.refusal is None else f"it takes no messages: {reports.refusal}", reports.loss)


def _row(broker: "Broker") -> dict[str, object]:
    return {
        "broker": broker.name,
        "cluster": broker.cluster,
        "address": broker.addresses.get(0),
        "replicas": {key: address for key, address in broker.addresses.items() if key},
        "version": broker.version and release(broker.version),
        "started_at": broker.started_at,
        "up": broker.up,
        "in_tps": broker.put_tps,
        "out_tps": broker.get_tps,
        "disk_used": broker.disk_used,
        "problem": broker.problem,
        "refusal": broker.reports and broker.reports.refusal,
        "damages": broker.reports and broker.reports.damages,
    }


@app.verb(
    "show",
    "steelyard broker show broker-a",
    "steelyard broker show broker-a --id 1",
    "steelyard broker show broker-a --all --output csv",
)
@at_cluster
def _show(
    where: Where,
    out: Out,
    broker: BrokerName,
    broker_id: ReplicaId = None,
    all_of_it: Annotated[bool, typer.Option("--all", help="All that it says, in its own words.")] = False,
) -> None:
    """Show one broker in plain words."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        state = admin.broker(broker, broker_id=broker_id)
    if all_of_it:
        out.rows([Column("name"), Column("value")], ({"name": key, "value": text} for key, text in state.told.items()))
    else:
        out.one(in_words(state) if out.is_table else as_values(state))
        for lost in state.reports.lost if out.is_table else ():
            note(str(lost))


@app.verb(
    "lag",
    "steelyard broker lag broker-a",
    "steelyard broker lag broker-a --queues --over 1000",
    "steelyard broker lag broker-a --group billing --output jsonl",
)
@at_cluster
def _lag(
    where: Where,
    out: Out,
    broker: BrokerName,
    queues: Annotated[bool, typer.Option("--queues", help="Each queue on its own.")] = False,
    over: Annotated[
        int | None, typer.Option(min=0, help="Only with more messages than that to go.", show_default=False)
    ] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="Only topics that are kept in order.")] = False,
    system: Annotated[bool, typer.Option("--system", help="Also groups of the servers.")] = False,
    group: InGroup = None,
    topic: InTopic = None,
) -> None:
    """Show how far every group is on a broker."""
    from steelyard.client.blocking.admin import Admin
    from steelyard.model.names import is_system_group

    with Admin(where.connect()) as admin:
        found = admin.broker_lag(broker, ordered_only=ordered)
    rows = [
        each
        for each in found
        if group in (None, each.group)
        and topic in (None, each.queue.topic)
        and (system or not is_system_group(each.group))
    ]
    told = map(_queue_row, rows) if queues else _summed(rows)
    columns = [Column("group"), Column("topic"), *([Column("queue_id", "queue", right=True)] if queues else [])]
    columns += [Column("end", right=True), Column("committed", right=True), Column("lag", "waiting", right=True)]
    columns.append(Column("in_flight", right=True))
    columns.append(Column("consumed_at", "last consumed", show=ago))
    out.rows(columns, [row for row in told if over is None or int(str(row["lag"])) > over])


def _queue_row(row: "GroupLag") -> dict[str, object]:
    return {
        "group": row.group,
        "topic": row.queue.topic,
        "queue_id": row.queue.queue_id,
        "end": row.end,
        "committed": row.committed,
        "lag": row.lag,
        "in_flight": None if row.pulled is None else max(0, row.pulled - row.committed),
        "consumed_at": row.consumed_at,
    }


def _summed(rows: "list[GroupLag]") -> list[dict[str, object]]:
    """Add up the queues of a topic."""
    together: dict[tuple[str, str], list[GroupLag]] = {}
    for row in rows:
        together.setdefault((row.group, row.queue.topic), []).append(row)
    return [
        {
            "group": group,
            "topic": topic,
            "queues": len(each),
            "end": sum(row.end for row in each),
            "committed": sum(row.committed for row in each),
            "lag": sum(row.lag for row in each),
            "in_flight": sum(max(0, row.pulled - row.committed) for row in each if row.pulled is not None),
            "consumed_at": max((row.consumed_at for row in each if row.consumed_at is not None), default=None),
        }
        for (group, topic), each in together.items()
    ]


@app.verb(
    "probe",
    "steelyard broker probe broker-a",
    "steelyard broker probe broker-a --count 100 --size 4096",
    "steelyard broker probe broker-a --each --output jsonl",
)
@at_cluster
def _probe(
    where: Where,
    out: Out,
    broker: BrokerName,
    count: Annotated[int, typer.Option(min=1, max=_PROBES_MOST, help="How many messages to send.")] = 50,
    size_bytes: Annotated[int, typer.Option("--size", min=1, metavar="BYTES", help="How large each is.")] = 128,
    each_one: Annotated[bool, typer.Option("--each", help="Show each message on its own.")] = False,
) -> None:
    """Send test messages to a broker, and tell how long each took.

    They go to the topic that every broker has under its own name. Nobody reads it, and it gets old with the rest.
    """
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.probe(broker, size=size_bytes)  # the line is opened with the first, which is no part of what is measured
        took_ms = [admin.probe(broker, size=size_bytes) for _ in range(count)]
    if each_one:
        columns = [Column("number", right=True), Column("ms", right=True)]
        out.rows(columns, ({"number": at, "ms": round(ms, 3)} for at, ms in enumerate(took_ms, 1)))
    else:
        out.one(_summary(broker, size_bytes, sorted(took_ms)))


def _summary(broker: str, size_bytes: int, took_ms: list[float]) -> Mapping[str, object]:
    def at(part: float) -> float:
        return round(took_ms[min(len(took_ms) - 1, int(len(took_ms) * part))], 3)

    return {
        "broker": broker,
        "messages": len(took_ms),
        "size_bytes": size_bytes,
        "min_ms": at(0),
        "avg_ms": round(sum(took_ms) / len(took_ms), 3),
        "p99_ms": at(0.99),
        "max_ms": at(1),
    }
