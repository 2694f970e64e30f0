"""`steelyard topic`: which topics there are, making one, and deleting one.

Making a topic that is there already, with the same queues, changes nothing and is no failure. Deleting one takes its
messages with it, so it is done only if that is said: ``--yes``.
"""

from typing import Annotated

import msgspec
import typer

from steelyard.cli.frame.screen import screen, visible
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.errors import ConfigurationError
from steelyard.model import Permission

__all__ = ["app"]

app = typer.Typer(name="topic", help="List topics, make one, delete one.", no_args_is_help=True)

_RIGHTS = {"read": Permission.READ, "write": Permission.WRITE}

_Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]


@app.command("ls")
@at_cluster
def _list_topics(
    where: Where,
    system: Annotated[
        bool, typer.Option("--system", help="Also those of the servers, and those that groups bring along.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """List the topics that are there."""
    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.cli.frame.tables import listing
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        topics = admin.topics(system=system)
    if as_json:
        for each in topics:
            typer.echo(msgspec.json.encode(each))
        return
    table = listing("topic", "#queues", "brokers", "clients may", "kind")
    for each in topics:
        may = " and ".join(word for word, right in _RIGHTS.items() if right in each.permission) or "nothing"
        table.add_row(visible(each.name), str(each.queues), visible(", ".join(each.brokers)), may, each.kind.value)
    screen().print(table)


@app.command("create")
@at_cluster
def _create_topic(
    where: Where,
    topic: _Topic,
    queues: Annotated[int, typer.Option(min=1, help="How many queues on each broker.")] = 8,
    order: Annotated[
        bool, typer.Option("--order", help="Fix its list of queues, so that a key keeps its queue when brokers go.")
    ] = False,
    broker: Annotated[
        list[str] | None,
        typer.Option(help="Only on this broker; several by repeating it.", show_default="all brokers"),
    ] = None,
) -> None:
    """Make a topic."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        made = admin.create_topic(topic, queues, order=order, brokers=broker)
    typer.echo(visible(f"topic {made.name} has {len(made.queues)} queues on {', '.join(made.brokers)}"))


@app.command("delete")
@at_cluster
def _delete_topic(
    where: Where,
    topic: _Topic,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, with all of its messages.")] = False,
) -> None:
    """Delete a topic and all of its messages."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        there = admin.topic(topic)
        if not yes:
            raise ConfigurationError(
                f"topic {topic!r} has {there.messages} messages, and they would be gone with it",
                next_step="if they may go, say --yes",
            )
        admin.delete_topic(topic)
    typer.echo(visible(f"topic {topic} is deleted, with {there.messages} messages"))
