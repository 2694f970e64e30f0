"""Verbs that look at topics: which there are, how far their queues are, where they live, how brokers keep them."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from steelyard.cli.frame.arguments import TopicName
from steelyard.cli.frame.moments import on_the_clock
from steelyard.cli.frame.output import Column, Out
from steelyard.cli.frame.where import Where, at_cluster

__all__ = ["list_topics", "show_route", "show_settings", "show_topic"]


@at_cluster
def list_topics(
    where: Where,
    out: Out,
    pattern: Annotated[
        str | None, typer.Argument(metavar="[PATTERN]", help="Only names like this: 'order*'.", show_default=False)
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="Also those of the servers, and those that groups bring along.")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those that this cluster has.", show_default=False)
    ] = None,
    groups: Annotated[bool, typer.Option("--groups", help="Also the groups that read each; takes longer.")] = False,
) -> None:
    """List the topics that are there."""
    from fnmatch import fnmatchcase

    # Here and not above, so that other verbs do not wait for what they do not need.
    from steelyard.cli.topic.rights import May
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        found = [
            each
            for each in admin.topics(system=system)
            if (pattern is None or fnmatchcase(each.name, pattern)) and (cluster is None or cluster in each.clusters)
        ]
        readers = {each.name: admin.topic_groups(each.name) for each in found} if groups else {}
    columns = [
        Column("topic"),
        Column("queues", right=True),
        Column("brokers"),
        Column("may", "clients may"),
        Column("kind"),
    ]
    out.rows(
        [*columns, Column("groups")] if groups else columns,
        (
            {
                "topic": each.name,
                "queues": each.queues,
                "brokers": each.brokers,
                "may": May.of(each.permission),
                "kind": each.kind,
                "clusters": each.clusters,
                **({"groups": readers[each.name]} if groups else {}),
            }
            for each in found
        ),
        none="there is no topic yet; make one: steelyard topic create NAME"
        if pattern is None
        else "no topic is like that",
    )


@at_cluster
def show_topic(where: Where, out: Out, topic: TopicName) -> None:
    """Show a topic by its queues, and how evenly they are filled.

    Of each queue: its first offset, the next one to be written, and when that was done last.
    """
    from steelyard.cli.frame.screen import note
    from steelyard.cli.topic.rights import May
    from steelyard.client.blocking.admin import Admin
    from steelyard.client.skew import skew

    with Admin(where.connect()) as admin:
        view = admin.topic(topic)
        groups = admin.topic_groups(topic) if out.is_table else []
    out.rows(
        [
            Column("broker"),
            Column("queue_id", "queue", right=True),
            Column("first", right=True),
            Column("next", right=True),
            Column("messages", right=True),
            Column("stored_at", "last stored", show=on_the_clock),
        ],
        (
            {
                "topic": topic,
                "broker": each.queue.broker,
                "queue_id": each.queue.queue_id,
                "first": each.start,
                "next": each.end,
                "messages": each.messages,
                "stored_at": each.stored_at,
            }
            for each in view.queues
        ),
    )
    if out.is_table:
        may = {May.of(each.permission) for each in view.counts}
        note(
            f"{topic}: {view.messages} messages in {len(view.queues)} queues on {_words(view.brokers)}; clients may "
            f"{_words(sorted(may))}; read by {_words(groups) or 'nobody'}"
        )
        if view.order:
            note(f"its list of queues is fixed: {view.order}")
        note(skew(view.queues))


@at_cluster
def show_route(where: Where, out: Out, topic: TopicName) -> None:
    """Show where a topic is, as clients are told."""
    from steelyard.cli.topic.rights import May
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        route = admin.topic_route(topic)
    places = {place.name: place for place in route.brokers}
    out.rows(
        [
            Column("cluster"),
            Column("broker"),
            Column("addresses", show=_addresses),
            Column("read_queues", right=True),
            Column("write_queues", right=True),
            Column("may", "clients may"),
        ],
        (
            {
                "topic": topic,
                "cluster": places[each.broker].cluster if each.broker in places else None,
                "broker": each.broker,
                "addresses": places[each.broker].addresses if each.broker in places else {},
                "read_queues": each.read,
                "write_queues": each.write,
                "may": May.of(each.permission),
                "order": route.order,
            }
            for each in sorted(route.counts, key=lambda each: each.broker)
        ),
    )


@at_cluster
def show_settings(where: Where, out: Out, topic: TopicName) -> None:
    """Show how each broker keeps a topic."""
    from steelyard.cli.frame.screen import note
    from steelyard.cli.topic.rights import May
    from steelyard.client.blocking.admin import Admin

    with Admin(where.connect()) as admin:
        setups = admin.topic_setups(topic)
    out.rows(
        [
            Column("broker"),
            Column("read_queues", right=True),
            Column("write_queues", right=True),
            Column("may", "clients may"),
            Column("order", "ordered"),
            Column("attributes"),
        ],
        (
            {
                "topic": topic,
                "broker": broker,
                "read_queues": each.read_queues,
                "write_queues": each.write_queues,
                "may": May.of(each.permission),
                "order": each.order,
                "attributes": each.attributes,
                "filter_type": each.filter_type,
                "sys_flag": each.sys_flag,
            }
            for broker, each in setups.items()
        ),
    )
    first, *others = setups.values()
    if out.is_table and any(each != first for each in others):
        note("these brokers do not keep it alike")


def _words(names: Iterable[str]) -> str:
    return ", ".join(names)


def _addresses(found: Mapping[int, str]) -> str:
    """Write the addresses of a broker, with the ids of replicas."""
    return ", ".join(f"{address} ({number})" if number else address for number, address in found.items())
