"""Runs a scenario of an upstream bug with the program as it is, and with the bug, when checks must fail.

If the bug is how Java works, the second run has Java's members instead of ours.
"""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

import pytest

from simulator.actors.member import MemberProcess
from simulator.apache.broker import ApacheBrokerProcess
from simulator.apache.java_client import JavaOptions
from simulator.apache.java_member import JavaMemberProcess
from simulator.mutants.mutant import AttributePatch, Mutant, mutated
from steelyard.balance.assignors.average import Average
from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.model import Queue, Subscription
from tests.simulator.cluster import GROUP, TOPIC, quick_handler
from tests.simulator.scripted_cluster import ScriptedCluster, fails_with, scenario_mutant

__all__ = ["AnyMember", "apache_of", "fails_with", "held_by", "join", "upstream", "with_java"]

AnyMember: TypeAlias = MemberProcess | JavaMemberProcess
Played: TypeAlias = Callable[[Mutant | None], None]

_JAVA = scenario_mutant("the members are Java's")


def upstream(sentence: str, *swaps: AttributePatch) -> Callable[[Played], Played]:
    """Run a test without a mutant and with it."""
    bug = scenario_mutant(sentence, *swaps)

    def wrap(test: Played) -> Played:
        @pytest.mark.parametrize("bug", [None, bug], ids=["ours", "with the mistake"])
        @wraps(test)
        def run(bug: Mutant | None) -> None:
            with mutated(bug):
                test(bug)

        return run

    return wrap


def with_java(test: Played) -> Played:
    """Run a test with our members and with Java's."""

    @pytest.mark.parametrize("bug", [None, _JAVA], ids=["ours", "java"])
    @wraps(test)
    def run(bug: Mutant | None) -> None:
        test(bug)

    return run


def join(cluster: ScriptedCluster, number: int, bug: Mutant | None, *, version: str = "5.x") -> AnyMember:
    """Start a member with a Java strategy: one of ours, or one of Java's in the second run."""
    if bug is not _JAVA:
        return cluster.member(number, is_steered=False, strategy=Average())
    options = JavaOptions(
        GROUP,
        f"10.0.2.{number}@{number}",
        {TOPIC: Subscription(TOPIC)},
        start=StartPosition(StartAt.FIRST),
        version=version,
    )
    member = JavaMemberProcess(
        cluster.world, options, f"10.0.2.{number}", [each.address for each in cluster.names], quick_handler
    )
    member.start()
    return member


def held_by(*members: AnyMember) -> Counter[Queue]:
    """Count how many of these members have each queue of the topic."""
    return Counter(
        queue
        for member in members
        for queue in (member.member.assignment() if isinstance(member, MemberProcess) else member.held_queues())
        if queue.topic == TOPIC
    )


def apache_of(cluster: ScriptedCluster) -> ApacheBrokerProcess:
    """Return the first broker of an Apache cluster."""
    assert isinstance(cluster.broker, ApacheBrokerProcess)
    return cluster.broker
