"""Which queues there are: topics by name or by a pattern, and what the name servers tell of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.client.session import Session
from steelyard.errors import TopicNotFound
from steelyard.model import Queue, Route, in_order
from steelyard.model.names import DEAD, RETRY, is_system_topic
from steelyard.spark.options.topics import Topics
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.routes import ClusterBody
from steelyard.wire.bodies.shared import TopicNames
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command

__all__ = ["Layout", "ask_layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Which queues there are, by topics as users write them."""

    queues: tuple[Queue, ...]
    """In order."""
    brokers: Mapping[str, frozenset[str]]
    """The brokers of each topic that is there."""
    missing: Mapping[str, TopicNotFound]
    """Topics that were named and that no name server tells of, with the sentence about each."""


async def ask_layout(session: Session, topics: Topics) -> Layout:
    """Ask the name servers; raises NoNameServer."""
    names = topics.names if topics.pattern is None else await _matching(session, topics)
    routes = dict(zip(names, await asyncio.gather(*(_route(session, name) for name in names)), strict=True))
    found = {topic: each for topic, each in routes.items() if isinstance(each, Route)}
    chosen = topics.queues
    queues = [session.names.bare_queue(queue) for route in found.values() for queue in route.readable()]
    return Layout(
        tuple(in_order(queue for queue in queues if chosen is None or queue in chosen)),
        {topic: frozenset(place.name for place in route.brokers) for topic, route in found.items()},
        {topic: each for topic, each in routes.items() if isinstance(each, TopicNotFound)},
    )


async def _route(session: Session, topic: str) -> Route | TopicNotFound:
    try:
        return await session.routes.look_up(session.names.full(topic))
    except TopicNotFound as error:
        return error


async def _matching(session: Session, topics: Topics) -> tuple[str, ...]:
    """Return the users' topics that a pattern matches."""
    answer = await session.ask_well(None, Command(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
    names, told = session.names, decode_body(TopicNames, answer.body).topics
    here = [names.bare(full) for full in sorted(told) if names.full(names.bare(full)) == full]
    matching = [name for name in here if topics.takes(name) and not name.startswith((RETRY, DEAD))]
    if not matching:
        return ()
    own = await _named_after_brokers(session)
    return tuple(name for name in matching if name not in own and not is_system_topic(name))


async def _named_after_brokers(session: Session) -> set[str]:
    """Return the names that Apache's brokers make a topic of each for themselves: their own, and their cluster's."""
    answer = await session.ask_well(None, Command(RequestCode.GET_BROKER_CLUSTER_INFO))
    brokers = decode_body(ClusterBody, answer.body).brokers
    return {*brokers, *(entry.cluster for entry in brokers.values() if entry.cluster)}
