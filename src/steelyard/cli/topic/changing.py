"""Verbs that change topics. Nothing is lost without a word: what messages would go with is asked about before.

Making a topic that is there already, with the same queues, changes nothing and is no failure.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.frame.arguments import TopicName
from steelyard.cli.frame.confirming import DryRun, Yes, confirm
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster
from steelyard.cli.topic.rights import May
from steelyard.errors import ConfigurationError, RequestNotSupported, SteelyardError

if TYPE_CHECKING:
    from steelyard.client.admin.topic_wishes import TopicPlan
    from steelyard.client.admin.topics import TopicView
    from steelyard.client.blocking.admin import Admin

__all__ = ["add_queues", "apply_file", "create_topic", "delete_topic", "order_topic", "set_topic"]

_NewTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]
_Brokers = Annotated[
    list[str] | None,
    typer.Option("--broker", help="Only on this broker; several by repeating it.", show_default="all brokers"),
]
_Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Only in this cluster.", show_default=False)
]
_Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        metavar="NAME=VALUE",
        help="What brokers of release 5 keep of it, such as message.type=FIFO; several by repeating it.",
        show_default=False,
    ),
]


@at_cluster
def create_topic(
    where: Where,
    out: Out,
    topic: _NewTopic,
    queues: Annotated[int, typer.Option(min=1, help="How many queues on each broker.")] = 8,
    may: Annotated[May, typer.Option(help="What clients may do with it.")] = May.BOTH,
    order: Annotated[
        bool, typer.Option("--order", help="Fix its list of queues, so that a key keeps its queue when brokers go.")
    ] = False,
    attribute: _Attributes = None,
    broker: _Brokers = None,
    cluster: _Cluster = None,
) -> None:
    """Make a topic, unless it is there as wanted."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        made = admin.create_topic(
            topic,
            queues,
            read=may in (May.BOTH, May.READ),
            write=may in (May.BOTH, May.WRITE),
            order=order,
            attributes=_pairs(attribute),
            brokers=broker,
            cluster=cluster,
        )
    _tell(out, made)


@at_cluster
def add_queues(
    where: Where,
    out: Out,
    topic: TopicName,
    to: Annotated[int, typer.Option("--to", min=1, help="How many it is to have on each broker.", show_default=False)],
) -> None:
    """Give a topic more queues on each broker that has it."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        made = admin.add_queues(topic, to)
    _tell(out, made)


@at_cluster
def set_topic(
    where: Where,
    out: Out,
    topic: TopicName,
    may: Annotated[May | None, typer.Option(help="What clients may do with it.", show_default=False)] = None,
    read_queues: Annotated[
        int | None, typer.Option(min=1, help="How many queues can be read on a broker.", show_default=False)
    ] = None,
    write_queues: Annotated[
        int | None, typer.Option(min=1, help="How many queues are written to on a broker.", show_default=False)
    ] = None,
    order: Annotated[
        bool | None,
        typer.Option("--order/--no-order", help="Fix its list of queues, or free it.", show_default=False),
    ] = None,
    attribute: _Attributes = None,
    no_attribute: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Take an attribute away.", show_default=False)
    ] = None,
    broker: _Brokers = None,
    cluster: _Cluster = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Change what is given of a topic, on the brokers that have it.

    To get rid of queues, first write to fewer, wait until all groups have read what the others hold, and then read
    from fewer.
    """
    from steelyard.client.admin.topic_wishes import TopicWish
    from steelyard.client.blocking.admin import Admin

    wish = TopicWish(
        name=topic,
        read_queues=read_queues,
        write_queues=write_queues,
        permission=None if may is None else may.permission,
        order=order,
        attributes={**_pairs(attribute), **dict.fromkeys(no_attribute or ())},
    )
    if wish == TopicWish(name=topic):
        raise ConfigurationError(
            f"nothing is said about what to change of topic {topic!r}",
            next_step="give --may, --read-queues, --write-queues, --order or --attribute",
        )
    with Admin(where.connect()) as admin:
        plan = admin.plan_topics([wish], brokers=broker, cluster=cluster, only_existing=True)
        _carry_out(admin, out, plan, dry_run=dry_run, yes=yes)


@at_cluster
def apply_file(
    where: Where,
    out: Out,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSON: an object of topics and their queues, or a list as mqadmin's updateTopicList takes it; - for "
            "stdin.",
            show_default=False,
        ),
    ],
    broker: _Brokers = None,
    cluster: _Cluster = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make and change topics as a file says.

    Topics that it does not name are left alone, and so is what it does not say of those that it names.
    """
    from steelyard.cli.topic.wish_file import read_wishes
    from steelyard.client.blocking.admin import Admin

    wishes = read_wishes(file)
    with Admin(where.connect()) as admin:
        plan = admin.plan_topics(wishes, brokers=broker, cluster=cluster)
        _carry_out(admin, out, plan, dry_run=dry_run, yes=yes)


@at_cluster
def delete_topic(where: Where, out: Out, topic: TopicName, cluster: _Cluster = None, yes: Yes = False) -> None:
    """Delete a topic and all of its messages."""
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        there = admin.topic(topic)
        groups = admin.topic_groups(topic)
        readers = f"; it is read by {', '.join(groups)}" if groups else ""
        confirm(f"topic {topic!r} has {there.messages} messages, and they would be gone with it{readers}", yes)
        admin.delete_topic(topic, cluster=cluster)
    out.done(f"topic {topic} is deleted, with {there.messages} messages", topic=topic, messages=there.messages)


@at_cluster
def order_topic(
    where: Where,
    out: Out,
    topic: TopicName,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKER:QUEUES",
            help="Fix the list to so many queues of a broker; several by repeating it. 'all' for those it has now.",
            show_default=False,
        ),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take the list away.")] = False,
) -> None:
    """Show, fix or clear the list of queues of an ordered topic.

    A list that is fixed stays as it is whatever brokers come and go, so that a key keeps its queue.
    """
    from steelyard.cli.frame.screen import note
    from steelyard.client.blocking.admin import Admin

    if fix and clear:
        raise ConfigurationError("--fix and --clear say the opposite", next_step="give one of them")
    with Admin(where.connect()) as admin:
        if clear:
            admin.clear_order(topic)
            out.done(f"the list of queues of topic {topic} is free", topic=topic, order=None)
            return
        if fix:
            admin.fix_order(topic, None if fix == ["all"] else _counts(fix))
        order = admin.topic_order(topic)
        is_told = order is None or admin.topic_route(topic).order is not None
    rows = ({"topic": topic, "broker": broker, "queues": count} for broker, count in (order or {}).items())
    out.rows([Column("broker"), Column("queues", right=True)], rows)
    if order is None:
        note(f"the list of queues of topic {topic} is not fixed")
    elif not is_told:
        note(
            "the name servers keep this list and do not tell clients of it; let them: "
            "steelyard cluster name-server config set orderMessageEnable=true"
        )


def _tell(out: Out, made: "TopicView") -> None:
    out.done(
        f"topic {made.name} has {len(made.queues)} queues on {', '.join(made.brokers)}",
        topic=made.name,
        queues=len(made.queues),
        brokers=made.brokers,
    )


def _carry_out(admin: "Admin", out: Out, plan: "TopicPlan", *, dry_run: bool, yes: bool) -> None:
    """Show a plan, and do it unless it is only to be shown."""
    from steelyard.cli.frame.screen import note

    if not dry_run:
        if hidden := _hidden(admin, plan):
            confirm(hidden, yes)
        try:
            admin.apply_topics(plan)
        except SteelyardError as error:
            # What is not supported is found out before anything is changed.
            if len(plan.todo) > 1 and not isinstance(error, RequestNotSupported):
                note("some of it may be done already; see what is left with --dry-run")
            raise
    out.rows(
        [Column("topic"), Column("broker"), Column("action"), Column("details")],
        (
            {"topic": each.topic, "broker": each.broker, "action": each.what, "details": each.details or None}
            for each in plan.changes
        ),
    )
    if dry_run:
        note("nothing was changed" if plan.todo else "there is nothing to change")


def _hidden(admin: "Admin", plan: "TopicPlan") -> str | None:
    """Say what could not be read any more, or None if all can."""
    told = []
    for topic, changes in plan.by_topic().items():
        gone = {(each.broker, number) for each in changes for number in each.hidden}
        if gone:
            ends = admin.topic(topic).queues
            left = sum(each.messages for each in ends if (each.queue.broker, each.queue.queue_id) in gone)
            told.append(f"{len(gone)} queues of topic {topic!r} with {left} messages could not be read any more")
    return "; ".join(told) or None


def _pairs(given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not (name and sign and value):
            raise ConfigurationError(f"{each!r} is no attribute", next_step="write NAME=VALUE")
        pairs[name] = value
    return pairs


def _counts(given: list[str]) -> dict[str, int]:
    counts = {}
    for each in given:
        broker, _, number = each.rpartition(":")
        if not broker or not number.isascii() or not number.isdigit() or len(number) > 9:
            raise ConfigurationError(f"{each!r} is no part of a list", next_step="write BROKER:QUEUES, or all")
        counts[broker] = int(number)
    return counts
