"""What a broker sends to its name servers, and when."""

import zlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from steelyard.broker.nameserver_registration import (
    CHANGE_GAP_MS,
    RETRY_PAUSE_MS,
    NameServerCommand,
    Registrar,
    RegistrationIdentity,
    registration_command,
    unregistration_command,
)
from steelyard.errors import ConfigurationError
from steelyard.nameserver import NameServerCore, NameServerOptions
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import TableVersion, TopicNames
from steelyard.wire.bodies.topics import BrokerRegistration, RouteBody, TopicConfig, TopicConfigTable
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.headers.nameserver import BrokerIdentity, RegisterBroker

WHO = RegistrationIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")
ONE, OTHER = "127.0.0.1:9876", "127.0.0.1:9877"
BEAT_MS = 30_000


def table(version: int, **queues: int) -> TopicConfigTable:
    topics = {name: TopicConfig(name=name, read_queues=count, write_queues=count) for name, count in queues.items()}
    return TopicConfigTable(version=TableVersion(counter=version, timestamp=version), topics=topics)


def registrar(*name_servers: str, first: TopicConfigTable | None = None) -> Registrar:
    return Registrar(WHO, name_servers or (ONE,), first or table(1, orders=4, bills=4), now_ms=0)


def reported(announcement: NameServerCommand) -> set[str]:
    return set(decode_body(BrokerRegistration, announcement.command.body).table.topics)


def yes(announcement: NameServerCommand) -> Command:
    return response_to(announcement.command)


def no(announcement: NameServerCommand) -> Command:
    return response_to(announcement.command, 1, remark="register broker failed")


def test_a_registration_is_what_a_5_broker_sends() -> None:
    command = registration_command(WHO, table(3, orders=4), opaque=9)
    (read,) = FrameDecoder().feed(encode_frame(command))
    header = read.header(RegisterBroker)
    assert (read.code, read.opaque, read.version, read.is_oneway) == (103, 9, 513, False)
    assert header.body_crc32 == zlib.crc32(read.body) & 0x7FFF_FFFF
    assert (header.compressed, header.enable_acting_master, header.heartbeat_timeout_millis) == (False, False, None)
    assert (header.broker_name, header.broker_addr, header.ha_server_addr) == (WHO.name, WHO.address, WHO.ha_address)
    assert read.body == (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{'
        b'"dataVersion":{"counter":3,"stateVersion":0,"timestamp":3},'
        b'"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":0},'
        b'"topicConfigTable":{"orders":{"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"orders","topicSysFlag":0,"writeQueueNums":4}},'
        b'"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
    )


def test_an_unregistration_says_who_goes() -> None:
    (read,) = FrameDecoder().feed(encode_frame(unregistration_command(WHO, opaque=9)))
    assert (read.code, read.opaque) == (104, 9)
    assert read.header(BrokerIdentity) == BrokerIdentity("broker-a", WHO.address, "DefaultCluster", 0)


def test_every_name_server_is_told_everything_at_the_start_and_at_every_beat() -> None:
    harness = registrar(ONE, OTHER)
    for beat in range(3):
        first, second = harness.tick(beat * BEAT_MS)
        assert [first.name_server, second.name_server] == [ONE, OTHER]
        assert reported(first) == reported(second) == {"orders", "bills"}
        assert first.command.opaque != second.command.opaque
        assert harness.tick(beat * BEAT_MS + BEAT_MS - 1) == ()
        assert harness.next_ms == (beat + 1) * BEAT_MS


def test_a_beat_goes_out_although_nothing_was_answered() -> None:
    harness = registrar()
    assert [len(harness.tick(beat * BEAT_MS)) for beat in range(4)] == [1, 1, 1, 1]


def test_a_changed_topic_is_reported_alone_and_at_once() -> None:
    harness = registrar()
    harness.tick(0)
    harness.update_table(table(2, orders=4, bills=8))
    assert harness.next_ms == CHANGE_GAP_MS
    (change,) = harness.tick(5_000)
    assert reported(change) == {"bills"}
    assert not change.is_full
    assert harness.tick(5_001) == ()
    assert harness.next_ms == BEAT_MS


def test_the_same_version_is_no_news() -> None:
    harness = registrar()
    harness.tick(0)
    harness.update_table(table(1, orders=4, bills=4))
    assert harness.tick(5_000) == ()


def test_changes_that_follow_each_other_are_told_together() -> None:
    harness = registrar()
    harness.tick(0)
    harness.update_table(table(2, orders=4, bills=8))
    assert len(harness.tick(5_000)) == 1
    for version in range(3, CHANGE_GAP_MS):
        harness.update_table(table(version, orders=version, bills=version))
        assert harness.tick(5_000 + version) == ()
    (together,) = harness.tick(5_000 + CHANGE_GAP_MS)
    assert reported(together) == {"orders", "bills"}
    assert together.is_full


def test_topics_made_one_after_the_other_are_each_told_at_once() -> None:
    harness = registrar()
    (last,) = harness.tick(5_000)
    for version in range(2, 9):
        harness.update_table(table(version, orders=4, bills=4 + version))
        assert harness.tick(5_000) == ()  # the last one is on its way
        harness.on_response(last, yes(last), 5_000)
        (last,) = harness.tick(5_000)
        assert reported(last) == {"bills"}


def test_several_changes_wait_for_more_even_if_all_was_answered() -> None:
    harness = registrar()
    (whole,) = harness.tick(5_000)
    harness.update_table(table(2, orders=8, bills=4))
    harness.update_table(table(3, orders=8, bills=8))
    harness.on_response(whole, yes(whole), 5_000)
    assert harness.next_ms == 5_000 + CHANGE_GAP_MS


def test_the_more_topics_there_are_the_longer_is_the_gap() -> None:
    many = {f"topic-{number}": 4 for number in range(10_000)}
    harness = registrar(first=table(1, **many))
    harness.tick(0)
    assert harness.next_change_ms(2) == 200
    assert harness.next_change_ms(1) == 200, "the last one is on its way"
    harness.update_table(table(2, orders=1, bills=1, **many))
    assert harness.next_ms == 200


def test_a_topic_that_is_gone_makes_the_whole_be_told() -> None:
    harness = registrar()
    harness.tick(0)
    harness.update_table(table(2, orders=4))
    (whole,) = harness.tick(5_000)
    assert whole.is_full
    assert harness.next_ms == 5_000 + BEAT_MS


def test_a_name_server_that_refuses_a_part_gets_the_whole_at_once() -> None:
    harness = registrar()
    harness.tick(0)
    harness.update_table(table(2, orders=4, bills=8))
    (part,) = harness.tick(5_000)
    harness.on_response(part, no(part), 5_010)
    (whole,) = harness.tick(5_010)
    assert reported(whole) == {"orders", "bills"}
    harness.on_response(whole, yes(whole), 5_020)
    assert harness.next_ms == 5_010 + BEAT_MS


def test_a_name_server_that_refuses_the_whole_is_asked_again_ever_more_slowly() -> None:
    harness, now_ms, pauses = registrar(), 0, []
    for _ in range(8):
        (whole,) = harness.tick(now_ms)
        assert whole.is_full
        harness.on_response(whole, no(whole), now_ms)
        next_ms = harness.next_ms
        assert next_ms is not None
        pauses.append(next_ms - now_ms)
        now_ms = next_ms
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    (whole,) = harness.tick(now_ms)
    harness.on_response(whole, yes(whole), now_ms)
    harness.on_failure(whole, now_ms)
    assert harness.next_ms == now_ms + RETRY_PAUSE_MS


def test_one_name_server_that_fails_does_not_hold_up_another() -> None:
    harness = registrar(ONE, OTHER)
    broken, fine = harness.tick(0)
    harness.on_failure(broken, 10)
    harness.on_response(fine, yes(fine), 10)
    harness.update_table(table(2, orders=4, bills=8))
    (change,) = harness.tick(500)
    assert (change.name_server, reported(change)) == (OTHER, {"bills"})
    (again,) = harness.tick(10 + RETRY_PAUSE_MS)
    assert (again.name_server, reported(again)) == (ONE, {"orders", "bills"})


def test_a_lost_connection_is_followed_by_everything_and_not_in_a_circle() -> None:
    harness = registrar()
    harness.tick(0)
    harness.on_connection_lost(ONE, 5_000)
    (whole,) = harness.tick(5_000)
    assert whole.is_full
    harness.on_connection_lost(ONE, 5_001)
    assert harness.tick(5_001) == ()
    assert harness.next_ms == 5_000 + RETRY_PAUSE_MS


def test_after_an_unregistration_nothing_is_reported() -> None:
    harness = registrar(ONE, OTHER)
    first, _ = harness.tick(0)
    goodbyes = harness.unregister()
    assert [(each.name_server, each.command.code) for each in goodbyes] == [(ONE, 104), (OTHER, 104)]
    harness.on_response(first, no(first), 1)
    harness.on_failure(first, 1)
    harness.on_connection_lost(ONE, 1)
    harness.update_table(table(2, orders=1))
    assert harness.tick(BEAT_MS) == ()
    assert harness.next_ms is None
    assert harness.unregister() == ()


@pytest.mark.parametrize("beat_ms", [9_999, 60_001, 0, -1])
def test_a_beat_is_ten_to_sixty_seconds(beat_ms: int) -> None:
    with pytest.raises(ConfigurationError, match=f"every {beat_ms} ms"):
        Registrar(WHO, [ONE], TopicConfigTable(), now_ms=0, heartbeat_ms=beat_ms)


class RegistrationMachine(RuleBasedStateMachine):
    """A registrar and two real name server cores, on connections that lose commands and answers, close and restart."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms, self.version, self.connections = 0, 1, 0
        self.queues = {"TBW102": 8, "orders": 4}
        self.registrar = Registrar(WHO, [ONE, OTHER], self.table(), now_ms=0)
        self.servers = {
            ONE: NameServerCore(NameServerOptions()),
            OTHER: NameServerCore(NameServerOptions()),
        }
        self.peers = {address: self.new_connection() for address in self.servers}

    def table(self) -> TopicConfigTable:
        return table(self.version, **self.queues)

    def new_connection(self) -> Peer:
        self.connections += 1
        return Peer.at("127.0.0.1", 40_000, connection_id=self.connections)

    def deliver(self, announcement: NameServerCommand) -> None:
        address = announcement.name_server
        (reply,) = self.servers[address].handle(announcement.command, self.peers[address], self.now_ms)
        self.registrar.on_response(announcement, reply.command, self.now_ms)

    @rule(name=st.sampled_from(["orders", "bills", "notes"]), count=st.integers(1, 16))
    def change_topic(self, name: str, count: int) -> None:
        """Make or change a topic."""
        if self.queues.get(name) != count:
            self.version += 1
            self.queues = self.queues | {name: count}
            self.registrar.update_table(self.table())

    @rule(
        passed_ms=st.sampled_from([0, 1, CHANGE_GAP_MS, RETRY_PAUSE_MS, BEAT_MS]),
        fates=st.lists(st.integers(0, 3), min_size=2),
    )
    def pass_time(self, passed_ms: int, fates: list[int]) -> None:
        """Let time pass; what is sent arrives, is lost, or its answer is."""
        self.now_ms += passed_ms
        for announcement, fate in zip(self.registrar.tick(self.now_ms), fates, strict=False):
            if fate > 1:
                self.deliver(announcement)
            else:
                if fate == 1:
                    self.servers[announcement.name_server].handle(
                        announcement.command, self.peers[announcement.name_server], self.now_ms
                    )
                self.registrar.on_failure(announcement, self.now_ms)

    @rule(address=st.sampled_from([ONE, OTHER]), forgets=st.booleans())
    def cut(self, address: str, forgets: bool) -> None:
        """Cut a connection; the name server behind it may have started anew."""
        self.servers[address].connection_closed(self.peers[address], self.now_ms)
        if forgets:
            self.servers[address] = NameServerCore(NameServerOptions())
        self.peers[address] = self.new_connection()
        self.registrar.on_connection_lost(address, self.now_ms)

    @rule()
    def settle(self) -> None:
        """Let everything arrive for a beat: then every name server knows everything."""
        end_ms = self.now_ms + BEAT_MS
        while (next_ms := self.registrar.next_ms) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            for announcement in self.registrar.tick(self.now_ms):
                self.deliver(announcement)
        for address in self.servers:
            assert self.known(address) == self.queues

    def known(self, address: str) -> dict[str, int]:
        def ask(command: Command) -> bytes:
            (reply,) = self.servers[address].handle(command, self.peers[address], self.now_ms)
            return reply.command.body

        topics = decode_body(TopicNames, ask(Command(206))).topics
        routes = {name: decode_body(RouteBody, ask(Command(105, {"topic": name}))) for name in topics}
        return {name: route.queues[0].read_queues for name, route in routes.items()}

    @invariant()
    def there_is_always_a_next_beat(self) -> None:
        """Nothing puts the next word off for longer than a beat."""
        assert self.registrar.next_ms is not None
        assert self.registrar.next_ms <= self.now_ms + BEAT_MS


TestRegistrationMachine = RegistrationMachine.TestCase
TestRegistrationMachine.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


def test_a_table_that_knows_static_topics_keeps_them() -> None:
    whole = replace(table(1, orders=1), mappings={})
    assert decode_body(BrokerRegistration, registration_command(WHO, whole).body).table.mappings == {}
