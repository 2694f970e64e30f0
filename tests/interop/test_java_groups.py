"""Groups of Java members: every queue has exactly one owner by the members' own reports, whoever comes and goes."""

from collections.abc import Sequence

import pytest

from steelyard.client.sync.admin import Admin
from tests.interop.clients import running_client, until
from tests.interop.jars import RELEASES
from tests.interop.java_clients import JavaClients, JavaPushConsumer, every
from tests.interop.mqadmin import Mqadmin
from tests.interop.wire_client import create_topic
from tests.waiting import LONGEST_S

QUEUES = 8

pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def wide(topic: str, hands: JavaClients) -> str:
    """Make a topic of eight queues."""
    name = f"{topic}-wide"
    with hands.cluster.connection() as connection:
        create_topic(connection, name, QUEUES)
    hands.cluster.wait_for_route(name)
    return name


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_queues_have_one_owner_while_members_join_and_die(
    hands: JavaClients, wide: str, group: str, *, orderly: bool
) -> None:
    other = next(release for release in RELEASES if release != hands.process.release)
    # These look by themselves only every twenty seconds: it is the broker that tells them to. But nobody tells them
    # when a lock is free.
    with (
        running_client(hands.process.release, quick=orderly) as process,
        running_client(other, quick=orderly) as mortal,
    ):
        starter = JavaClients(process, hands.cluster)
        members = [starter.push(group, every(wide), orderly=orderly) for _ in range(2)]
        shared(members, wide, [4, 4])
        # The third is of the other release: all compute the same plan.
        third = JavaClients(mortal, hands.cluster).push(group, every(wide), orderly=orderly)
        shared([*members, third], wide, [2, 3, 3])
        if orderly and not hands.cluster.is_ours:
            third.stop()  # Apache's broker keeps the locks of a member that was killed for a minute
        else:
            mortal.kill()
        shared(members, wide, [4, 4], seconds=LONGEST_S if orderly else 15)
        members[0].stop()
        shared(members[1:], wide, [8])
        producer = hands.producer("senders")
        for number in range(QUEUES * 2):
            producer.send(wide, str(number))
        assert len({each.body for each in members[1].wait(QUEUES * 2)}) == QUEUES * 2


def test_members_beyond_the_queues_are_idle(hands: JavaClients, topic: str, group: str) -> None:
    members = [hands.push(group, every(topic)) for _ in range(5)]
    shared(members, topic, [0, 1, 1, 1, 1])


def test_lite_consumers_share_too(hands: JavaClients, wide: str, group: str) -> None:
    members = [hands.lite(group, every(wide)) for _ in range(2)]
    owned = until(lambda: [member.owned() for member in members], lambda owned: sorted(map(len, owned)) == [4, 4])
    assert sorted(number for part in owned for _, _, number in part) == list(range(QUEUES))


def test_a_queue_that_is_added_finds_an_owner(hands: JavaClients, topic: str, group: str) -> None:
    members = [hands.push(group, every(topic)) for _ in range(2)]
    shared(members, topic, [2, 2])
    with hands.cluster.connection() as connection:
        create_topic(connection, topic, 6)
    shared(members, topic, [3, 3])


def test_two_members_with_one_client_id_are_seen(
    hands: JavaClients, mqadmin: Mqadmin, wide: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = hands.push(group, every(wide), instanceName="twin", clientIP="10.9.8.7")
    with running_client(hands.process.release) as process:
        second = JavaClients(process, hands.cluster).push(group, every(wide), instanceName="twin", clientIP="10.9.8.7")
        assert second.client_id == first.client_id == "10.9.8.7@twin"
        # Apache lists both, so that each takes the first half and nobody the second; ours counts them once.
        times = 1 if hands.cluster.is_ours else 2
        until(lambda: mqadmin("consumerConnection", "-g", group).out, lambda out: out.count("10.9.8.7@twin") == times)
        taken = [0, 1, 2, 3] if times == 2 else list(range(QUEUES))
        until(lambda: [first.owned(wide), second.owned(wide)], lambda owned: owned == [taken, taken])
        with Admin(hands.cluster.name_server) as admin:
            reported = [warning.message for warning in admin.groups.describe(group).findings]
        if hands.cluster.is_ours:
            warning = f"group {group} has the client id 10.9.8.7@twin on several connections"
            until(lambda: caplog.text, lambda text: warning in text)
            (sentence,) = [each for each in reported if each.startswith(warning)]
            assert "they read the same queues, and each handles all their messages" in sentence
            assert not [each for each in reported if "unread" in each]
        else:
            warning = f"group {group} lists 10.9.8.7@twin more than once"
            (sentence,) = [each for each in reported if each.startswith(warning)]
            assert "it reads only the first of its shares, so queues stay unread" in sentence
        second.stop()


def shared(members: Sequence[JavaPushConsumer], topic: str, sizes: list[int], *, seconds: float = LONGEST_S) -> None:
    """Wait until the queues are shared in parts of these sizes, and check that each has one owner."""
    owned = until(
        lambda: [member.owned(topic) for member in members],
        lambda owned: sorted(map(len, owned)) == sizes and _one_owner(owned),
        seconds=seconds,
    )
    assert _one_owner(owned)


def _one_owner(owned: list[list[int]]) -> bool:
    together = sorted(number for part in owned for number in part)
    return together == list(range(len(together)))
