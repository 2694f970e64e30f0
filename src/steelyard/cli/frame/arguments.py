"""The names that verbs ask for, declared once, and completed from the cluster while they are typed.

A shell asks at every press of a key, so an answer has to come within a second, and a cluster that cannot be reached
completes nothing and says nothing.
"""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from steelyard.client.blocking.admin import Admin

__all__ = [
    "AtBroker",
    "AtBrokers",
    "BrokerName",
    "GroupName",
    "InGroup",
    "InTopic",
    "InTopics",
    "MemberName",
    "OfGroup",
    "SomeGroup",
    "SomeTopic",
    "TopicName",
    "TopicNames",
]

_PATIENCE_S = 1.0


def _topics(ctx: typer.Context, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, lambda admin: (topic.name for topic in admin.topics()))


def _groups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, lambda admin: admin.group_names())


def _brokers(ctx: typer.Context, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, lambda admin: (broker.name for broker in admin.cluster()))


def _members(ctx: typer.Context, incomplete: str) -> list[str]:
    group = ctx.params.get("group")
    if not isinstance(group, str):
        return []
    from steelyard.cli.frame.short_names import short_names

    return _complete(ctx, incomplete, lambda admin: short_names(member.id for member in admin.members(group)).values())


def _complete(ctx: typer.Context, incomplete: str, names: "Callable[[Admin], Iterable[str]]") -> list[str]:
    import logging

    from steelyard.cli.frame.where import where_of
    from steelyard.client.blocking.admin import Admin
    from steelyard.errors import SteelyardError

    logging.getLogger("steelyard").addHandler(logging.NullHandler())
    try:
        with Admin(where_of(ctx.params, timeout=_PATIENCE_S).connect()) as admin:
            return [name for name in names(admin) if name.startswith(incomplete)]
    except SteelyardError:
        return []


TopicName = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False, autocompletion=_topics)
]
TopicNames = Annotated[
    list[str], typer.Argument(metavar="TOPIC…", help="Topics' names.", show_default=False, autocompletion=_topics)
]
SomeTopic = Annotated[
    str | None,
    typer.Argument(metavar="[TOPIC]", help="The topic's name.", show_default=False, autocompletion=_topics),
]
GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", help="The group's name.", show_default=False, autocompletion=_groups)
]
SomeGroup = Annotated[
    str | None,
    typer.Argument(metavar="[GROUP]", help="The group's name.", show_default=False, autocompletion=_groups),
]
BrokerName = Annotated[
    str, typer.Argument(metavar="BROKER", help="The broker's name.", show_default=False, autocompletion=_brokers)
]
MemberName = Annotated[
    str,
    typer.Argument(
        metavar="MEMBER", help="The member's id, or its short name.", show_default=False, autocompletion=_members
    ),
]
InTopic = Annotated[
    str | None, typer.Option("--topic", help="Only this topic.", show_default=False, autocompletion=_topics)
]
InTopics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", help="Only this topic; several by repeating it.", show_default="all", autocompletion=_topics
    ),
]
OfGroup = Annotated[str, typer.Option("--group", help="The group's name.", show_default=False, autocompletion=_groups)]
InGroup = Annotated[
    str | None, typer.Option("--group", help="Only this group.", show_default=False, autocompletion=_groups)
]
AtBroker = Annotated[
    str | None, typer.Option("--broker", help="Only this broker.", show_default=False, autocompletion=_brokers)
]
AtBrokers = Annotated[
    list[str] | None,
    typer.Option(
        "--broker", help="Only on this broker; several by repeating it.", show_default="all", autocompletion=_brokers
    ),
]
