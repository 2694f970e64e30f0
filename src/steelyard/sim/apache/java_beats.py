"""Heartbeats and goodbyes of Java's members: to every broker of the routes, one after the other."""

from collections.abc import Mapping

from steelyard.balance.actions import StartAt
from steelyard.model import Subscription
from steelyard.sim.apache.java_calls import Ask, Script
from steelyard.sim.apache.java_state import JavaState
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.heartbeat import (
    ConsumeKind,
    ConsumerBeat,
    Heartbeat,
    ProducerBeat,
    StartFrom,
    SubscriptionBody,
)
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.common import Empty
from steelyard.wire.headers.group import Unregister

__all__ = ["beat_all", "beat_command", "say_goodbye", "subscriptions"]

_START: Mapping[StartAt, StartFrom] = {
    StartAt.LAST: StartFrom.LAST_OFFSET,
    StartAt.FIRST: StartFrom.FIRST_OFFSET,
    StartAt.TIME: StartFrom.TIMESTAMP,
}


def subscriptions(state: JavaState) -> tuple[SubscriptionBody, ...]:
    """Return what the member wants, with the version that it has now."""
    wanted = (state.options.topics.get(topic) or Subscription(topic) for topic in state.options.all_topics)
    return tuple(
        SubscriptionBody.of(Subscription(each.topic, each.expression, each.kind, state.versions[each.topic]))
        for each in wanted
    )


def beat_command(state: JavaState) -> Command:
    """Make a heartbeat."""
    consumer = ConsumerBeat(
        start_from=_START[state.options.start.at],
        kind=ConsumeKind.PUSH,
        group=state.options.group,
        model=state.options.model,
        subscriptions=subscriptions(state),
    )
    producer = ProducerBeat(group="CLIENT_INNER_PRODUCER")
    beat = Heartbeat(client_id=state.options.id, consumers=(consumer,), producers=(producer,))
    return state.request(RequestCode.HEART_BEAT, Empty(), encode_body(beat))


def beat_all(state: JavaState) -> Script[None]:
    """Tell every broker that it is here, unless another thread is at it."""
    if state.is_beating:
        return
    state.is_beating = True
    for address in list(dict.fromkeys(state.addresses.values())):
        yield Ask(address, beat_command(state))
    state.is_beating = False


def say_goodbye(state: JavaState) -> Script[None]:
    """Tell every broker that it goes."""
    header = Unregister(state.options.id, consumer_group=state.options.group)
    for address in list(dict.fromkeys(state.addresses.values())):
        yield Ask(address, state.request(RequestCode.UNREGISTER_CLIENT, header))
