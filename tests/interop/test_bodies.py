"""JSON bodies: we write, Java reads and writes again, we read; nothing is lost on the way but what is listed."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.interop.jars import RELEASES
from tests.interop.java_bodies import JAVA_BODIES, ONLY_IN_5, SETS, UNKNOWN_TO_4, UNKNOWN_TO_BOTH
from tests.interop.java_values import ASTRAL, for_java
from tests.interop.losses import losses, tree
from tests.interop.peer import JavaRefused, Peer
from tests.wire.body_values import values

from steelyard.model import Queue, Subscription
from steelyard.wire.bodies.codec import decode_body, encode_body
from steelyard.wire.bodies.groups import GroupSettings, SimpleSubscription
from steelyard.wire.bodies.heartbeat import ConsumeKind, ConsumerBeat, Heartbeat, SubscriptionBody
from steelyard.wire.bodies.offsets import MemberOffsets, ResetOffsets
from steelyard.wire.bodies.registration import Registration, compress_registration, decompress_registration
from steelyard.wire.bodies.routes import BrokerEntry, QueueEntry, QueueMapping, RouteBody
from steelyard.wire.bodies.running import QueueState, RunningState
from steelyard.wire.bodies.shared import TableVersion, TextTable
from steelyard.wire.bodies.stats import ConsumeStats, GroupPlace, QueueEnds, TopicStats
from steelyard.wire.bodies.topics import QueueMappingDetail, TopicSettings, TopicTable
from steelyard.wire.body import Body
from steelyard.wire.maps import ById, ByQueue

CASES = [
    (release, kind, name)
    for release in RELEASES
    for kind, name in JAVA_BODIES
    if release != "4.9.8" or name not in ONLY_IN_5
]


def test_4_lacks_exactly_the_classes_that_are_listed(java: Peer) -> None:
    lacking = {name for _, name in JAVA_BODIES if not java.ask("has-class", name)}
    assert lacking == (ONLY_IN_5 if java.release == "4.9.8" else set())


@pytest.mark.parametrize(
    ("java", "kind", "name"), CASES, indirect=["java"], ids=[f"{case[0]}-{case[2]}" for case in CASES]
)
@settings(max_examples=30)
@given(data=st.data())
def test_a_body_passes_there_and_back(java: Peer, kind: type[Body], name: str, data: st.DataObject) -> None:
    sent = encode_body(without_unwritten_parts(for_java(data.draw(values(kind))), name))
    returned = java.ask_bytes("rewrite-body", sent, name)
    unknown = UNKNOWN_TO_BOTH | (UNKNOWN_TO_4 if java.release == "4.9.8" else set())
    lost = [loss for loss in losses(tree(sent), tree(returned), SETS) if loss[0] not in unknown]
    assert [loss for loss in lost if loss != ("consumeType", "CONSUME_POP", None)] == []
    read = encode_body(decode_body(kind, returned))
    assert list(losses(tree(returned), tree(read), SETS)) == []


def without_unwritten_parts(value: Any, name: str) -> Any:
    """Take away a static topic's details where Java's class has none: see the test of unknown properties."""
    if name == "TopicConfigAndQueueMapping":
        return value
    if isinstance(value, TopicSettings):
        return msgspec.structs.replace(value, mapping=None)
    if isinstance(value, Body):
        parts = {each.name: without_unwritten_parts(getattr(value, each.name), name) for each in fields(value)}
        return type(value)(**parts)
    return value
