"""How a mistake of other projects is played: as the program is, and with the mistake put back, when checks must fail.

Where the mistake is Java's own way of doing things, the second play has Java's members in place of ours.
"""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

import pytest
from tests.sim.cluster import GROUP, TOPIC, quick
from tests.sim.scene import Scene, fails_with, mistake

from steelyard.balance.actions import Start, StartAt
from steelyard.balance.allocate.average import Average
from steelyard.model import Queue, Subscription
from steelyard.sim.apache.broker import ApacheBrokerProcess
from steelyard.sim.apache.java_member import JavaMemberProcess
from steelyard.sim.apache.java_state import JavaOptions
from steelyard.sim.members import MemberProcess
from steelyard.sim.planted.bug import Bug, Swap, planted

__all__ = ["AnyMember", "apache_of", "fails_with", "held_by", "join", "upstream", "with_java"]

AnyMember: TypeAlias = MemberProcess | JavaMemberProcess
Played: TypeAlias = Callable[[Bug | None], None]

_JAVA = mistake("the members are Java's")


def upstream(sentence: str, *swaps: Swap) -> Callable[[Played], Played]:
    """Play a test without a mistake and with it."""
    bug = mistake(sentence, *swaps)

    def wrap(test: Played) -> Played:
        @pytest.mark.parametrize("bug", [None, bug], ids=["ours", "with the mistake"])
        @wraps(test)
        def run(bug: Bug | None) -> None:
            with planted(bug):
                test(bug)

        return run

    return wrap


def with_java(test: Played) -> Played:
    """Play a test with members of ours and with Java's."""

    @pytest.mark.parametrize("bug", [None, _JAVA], ids=["ours", "java"])
    @wraps(test)
    def run(bug: Bug | None) -> None:
        test(bug)

    return run


def join(scene: Scene, number: int, bug: Bug | None, *, version: str = "5.x") -> AnyMember:
    """Start a member that shares as Java's do: one of ours, or one of Java's if it is their turn."""
    if bug is not _JAVA:
        return scene.member(number, is_steered=False, strategy=Average())
    options = JavaOptions(
        GROUP,
        f"10.0.2.{number}@{number}",
        {TOPIC: Subscription(TOPIC)},
        start=Start(StartAt.FIRST),
        version=version,
    )
    member = JavaMemberProcess(scene.world, options, f"10.0.2.{number}", [each.address for each in scene.names], quick)
    member.begin()
    return member


def held_by(*members: AnyMember) -> Counter[Queue]:
    """Count how many of these members have each queue of the topic."""
    return Counter(
        queue
        for member in members
        for queue in (member.member.assignment() if isinstance(member, MemberProcess) else member.held())
        if queue.topic == TOPIC
    )


def apache_of(scene: Scene) -> ApacheBrokerProcess:
    """Return the first broker of a scene of Apache's."""
    assert isinstance(scene.broker, ApacheBrokerProcess)
    return scene.broker
