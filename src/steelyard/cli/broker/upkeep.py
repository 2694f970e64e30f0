"""A broker's upkeep: cleaning, reading ahead, comparing indexes, and what a replica believes of its master."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from steelyard.cli.broker.noun import ReplicaId, app
from steelyard.cli.broker.words import size
from steelyard.cli.frame.arguments import BrokerName, InTopic
from steelyard.cli.frame.confirming import Yes, confirm
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.screen import note
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError

_KEPT_HOURS = "fileReservedTime"


class _Switch(StrEnum):
    ON = "on"
    OFF = "off"


@app.verb(
    "clean",
    "steelyard broker clean broker-a --log",
    "steelyard broker clean broker-a --topics --indexes --yes",
)
@at_cluster
def _clean(
    where: Where,
    out: Out,
    broker: BrokerName,
    log: Annotated[bool, typer.Option("--log", help="Log files whose messages are older than it keeps them.")] = False,
    indexes: Annotated[bool, typer.Option("--indexes", help="Indexes of messages that are gone from the log.")] = False,
    topics: Annotated[bool, typer.Option("--topics", help="Indexes of topics that it does not have any more.")] = False,
    yes: Yes = False,
) -> None:
    """Have a broker clean away now what it would clean away later."""
    from steelyard.client.admin.upkeep import Cleaning
    from steelyard.client.blocking.admin import Admin

    wanted = {
        Cleaning.LOG: (log, "log files whose messages are too old"),
        Cleaning.INDEXES: (indexes, "indexes of messages that are gone"),
        Cleaning.TOPICS: (topics, "indexes of topics that it does not have any more"),
    }
    chosen = {what: words for what, (is_wanted, words) in wanted.items() if is_wanted}
    if not chosen:
        raise ConfigurationError(
            f"nothing of {broker} is to be cleaned", next_step="say what: --log, --indexes or --topics"
        )
    with Admin(where.connect()) as admin:
        kept = admin.broker_config(broker).get(_KEPT_HOURS, "") if log else ""
        hours = f" (it keeps them for {kept} hours)" if kept.isdigit() else ""
        confirm(f"{broker} would delete {', and '.join(chosen.values())}{hours}, at once", yes)
        before = admin.broker(broker)
        for what in chosen:
            admin.clean_broker(broker, what)
        after = admin.broker(broker)
    freed = (after.log_start or 0) - (before.log_start or 0)
    out.done(
        f"{broker} cleans {', and '.join(chosen.values())}; its log is {size(max(0, freed))} shorter by now",
        broker=broker,
        cleaned=[what.name.lower() for what in chosen],
        freed_bytes=max(0, freed),
    )


@app.verb(
    "read-ahead",
    "steelyard broker read-ahead broker-a off",
    "steelyard broker read-ahead broker-a on --id 1",
)
@at_cluster
def _read_ahead(
    where: Where,
    out: Out,
    broker: BrokerName,
    switch: Annotated[_Switch, typer.Argument(metavar="on|off", show_default=False)],
    broker_id: ReplicaId = None,
) -> None:
    """Have a broker's system read log files ahead, or not.

    Off is cheaper for a broker whose old messages are read at random, on is better for all others.
    """
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.set_read_ahead(broker, switch is _Switch.ON, broker_id=broker_id)
    out.done(f"{broker} reads log files ahead: {switch.value}", broker=broker, read_ahead=switch is _Switch.ON)


@app.verb(
    "check-index",
    "steelyard broker check-index broker-a --topic orders",
    "steelyard broker check-index broker-a --topic orders --since '2 days ago'",
)
@at_cluster
def _check_index(
    where: Where,
    out: Out,
    broker: BrokerName,
    topic: InTopic = None,
    since: Annotated[str, typer.Option(metavar="TIME", help="From when on.")] = "30 days ago",
) -> None:
    """Have a broker compare its two kinds of index, in files and in RocksDB.

    It does so on its own time, and writes into its own log what it finds.
    """
    from steelyard.cli.frame.moments import moment
    from steelyard.client.blocking.admin import Admin

    when = moment(since, datetime.now(UTC))
    if topic is None:
        raise ConfigurationError("no topic is named", next_step="name one with --topic")
    with Admin(where.connect()) as admin:
        state = admin.check_index(broker, topic, when)
    row = {"broker": broker, "topic": topic, "since": when, "indexes": state.state, "detail": state.detail}
    out.rows([Column(key) for key in row], [row])
    if state.state == "being compared":
        note(f"{broker} writes into its own log what it finds")


@app.verb("flush-offset", "steelyard broker flush-offset broker-a --id 1 --to 1048576")
@at_cluster
def _flush_offset(
    where: Where,
    out: Out,
    broker: BrokerName,
    broker_id: Annotated[int, typer.Option("--id", min=1, help="Which replica of it.", show_default=False)],
    to: Annotated[int, typer.Option(min=0, metavar="POSITION", help="A position in the log.", show_default=False)],
    yes: Yes = False,
) -> None:
    """Tell a replica up to where its master has flushed its log."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        admin.broker(broker, broker_id=broker_id)
        confirm(f"replica {broker_id} of {broker} would believe that its master has flushed up to {to}", yes)
        admin.set_flushed(broker, broker_id, to)
    out.done(
        f"replica {broker_id} of {broker} takes it that its master has flushed up to {to}",
        broker=broker,
        id=broker_id,
        flushed=to,
    )
