"""Registration with name servers: what a broker sends to each of them, and when.

A name server keeps the last registration and removes silent brokers. So a broker sends everything at the start and with
every heartbeat, and changes as soon as they happen. `Registrar` decides for each name server:

- everything at once, when nothing was sent yet, when the connection was lost, or when a part was refused;
- a change at once if the last command was answered; else, and if there are several changes, those within
  `CHANGE_GAP_MS` together, so that a thousand new topics are a few commands. The more topics, the longer the gap, since
  all of them are sent then;
- everything with every heartbeat, whatever is unanswered, since a late heartbeat removes the broker;
- everything again after a failure, after a pause that grows from `RETRY_PAUSE_MS` to a heartbeat interval.

One changed topic is sent alone; several, or a deleted one, by sending everything. Name servers take a command with one
topic for an addition, and one with several may be taken for all. Two commands of one version would not work either: the
second would be ignored. The sender must keep one connection to each name server: the broker is removed when the
connection of its last registration closes. Left out: the compressed form and the version query, both for old servers.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from steelyard.errors import ConfigurationError
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import BrokerRegistration, TopicConfig, TopicConfigTable
from steelyard.wire.codes import SERVER_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.nameserver import BrokerIdentity, RegisterBroker

CHANGE_GAP_MS = 25
"""The least time between two changes for one name server."""

_TOPICS_PER_MS = 50
"""The gap is a millisecond per this many topics, if that is longer. 10,000 topics take both ends some 90 ms, which must
not be most of their time while a client creates one topic after the other."""

_TOPICS_PER_MS_SINGLE = 250
"""The same for a change that is sent alone: only the table has to be built for it."""

RETRY_PAUSE_MS = 1_000
"""The pause before the first retry after a failure."""

_JAVA_CRC_BITS = 0x7FFF_FFFF
_OPAQUE_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True)
class RegistrationIdentity:
    """A broker's identity for name servers: its names and addresses."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str
    """The address for replicas; there are none, but the field is required."""


def registration_command(
    identity: RegistrationIdentity, table: TopicConfigTable, *, topic: str | None = None, opaque: int = 0
) -> Command:
    """Build the command that registers a broker, with all its topics or with the one that changed.

    Apache's 5.x refuses exactly one topic from an unknown broker: send everything first, and at least two topics, which
    the system topics of every broker ensure.

    >>> identity = RegistrationIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")
    >>> int(registration_command(identity, TopicConfigTable()).code)
    103
    """
    known = replace(
        table,
        version=(table.version or TableVersion()).normalized(),
        mapping_version=(table.mapping_version or TableVersion()).normalized(),
        topics=table.topics if topic is None else {topic: table.topics[topic]},
        mapping_details=table.mapping_details or {},
        mappings=table.mappings or {},
    )
    body = encode_body(BrokerRegistration(table=known))
    header = RegisterBroker(
        broker_name=identity.name,
        broker_addr=identity.address,
        cluster_name=identity.cluster,
        broker_id=identity.broker_id,
        ha_server_addr=identity.ha_address,
        enable_acting_master=False,
        body_crc32=zlib.crc32(body) & _JAVA_CRC_BITS,
    )
    return Command(RequestCode.REGISTER_BROKER, header, body, opaque, version=SERVER_VERSION)


def unregistration_command(identity: RegistrationIdentity, *, opaque: int = 0) -> Command:
    """Build the command that unregisters a broker."""
    header = BrokerIdentity(identity.name, identity.address, identity.cluster, identity.broker_id)
    return Command(RequestCode.UNREGISTER_BROKER, header, opaque=opaque, version=SERVER_VERSION)


class NameServerCommand(Struct, frozen=True):
    """A command for one name server. The sender reports the result to the `Registrar`."""

    name_server: str
    command: Command
    is_full: bool
    """Whether it contains everything."""


@dataclass(slots=True)
class _NameServerStatus:
    """The state of one name server."""

    due_ms: int
    """When to send everything."""
    known_table: TopicConfigTable | None = None
    """What it knows if nothing went wrong; None if it needs everything."""
    sent_ms: int = 0
    is_awaiting_response: bool = False
    """Whether the last command is unanswered."""
    failures: int = 0


class Registrar:
    """Decides what each name server is sent, and when.

    >>> identity = RegistrationIdentity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")
    >>> registrar = Registrar(identity, ["127.0.0.1:9876"], TopicConfigTable(), now_ms=0)
    >>> [sent.name_server for sent in registrar.tick(0)], registrar.tick(1), registrar.next_ms
    (['127.0.0.1:9876'], (), 30000)
    """

    def __init__(
        self,
        identity: RegistrationIdentity,
        name_servers: Iterable[str],
        table: TopicConfigTable,
        *,
        now_ms: int,
        heartbeat_ms: int = 30_000,
        gap_ms: int = CHANGE_GAP_MS,
    ) -> None:
        if not 10_000 <= heartbeat_ms <= 60_000:
            raise ConfigurationError(
                f"a broker cannot register every {heartbeat_ms} ms",
                next_step="give 10,000 to 60,000, as Apache's takes",
            )
        self._identity, self._table, self._heartbeat_ms, self._gap_ms = identity, table, heartbeat_ms, gap_ms
        self._name_servers = {address: _NameServerStatus(due_ms=now_ms) for address in name_servers}
        self._opaque = 0

    @property
    def next_ms(self) -> int | None:
        """When to call `tick` next; None if there are no name servers."""
        return min(map(self._due_ms, self._name_servers.values()), default=None)

    def next_change_ms(self, changes: int) -> int | None:
        """Return when to send this many more changes; before that no table has to be built."""
        return min((self._due_ms(status, changes) for status in self._name_servers.values()), default=None)

    def update_table(self, table: TopicConfigTable) -> None:
        """Set the table of topics, if its version is new; `tick` returns what to send."""
        if table.version != self._table.version:
            self._table = table

    def tick(self, now_ms: int) -> Sequence[NameServerCommand]:
        """Return what to send now, at most one command per name server."""
        due = ((address, each) for address, each in self._name_servers.items() if self._due_ms(each) <= now_ms)
        return tuple(self._build_command(address, status, now_ms) for address, status in due)

    def on_response(self, sent: NameServerCommand, answer: Command, now_ms: int) -> None:
        """Handle the response of a name server."""
        status = self._name_servers.get(sent.name_server)
        if status is None:
            return
        status.is_awaiting_response = False
        if answer.code == ResponseCode.SUCCESS:
            status.failures = 0
        elif sent.is_full:
            self.on_failure(sent, now_ms)
        else:
            # It refuses a part, since it does not know us: it gets everything.
            status.known_table, status.due_ms = None, now_ms

    def on_failure(self, sent: NameServerCommand, now_ms: int) -> None:
        """Handle a command that failed or got no response: what the name server knows is unknown."""
        if status := self._name_servers.get(sent.name_server):
            pause_ms = min(RETRY_PAUSE_MS << min(status.failures, 16), self._heartbeat_ms)
            status.failures += 1
            status.known_table, status.due_ms = None, min(status.due_ms, now_ms + pause_ms)

    def on_connection_lost(self, name_server: str, now_ms: int) -> None:
        """Handle a lost connection, which removes this broker from the name server's routes."""
        if status := self._name_servers.get(name_server):
            # Not at once if it has just been sent: a name server that closes every connection must not be a busy loop.
            again_ms = max(now_ms, status.sent_ms + RETRY_PAUSE_MS)
            status.known_table, status.due_ms = None, min(status.due_ms, again_ms)

    def unregister(self) -> Sequence[NameServerCommand]:
        """Return the commands that unregister this broker everywhere; nothing follows."""
        addresses, self._name_servers = self._name_servers, {}
        return tuple(
            NameServerCommand(address, unregistration_command(self._identity, opaque=self._next_opaque()), True)
            for address in addresses
        )

    def _build_command(self, address: str, status: _NameServerStatus, now_ms: int) -> NameServerCommand:
        topic = None
        if status.known_table is not None and now_ms < status.due_ms:
            topic = _only_change(status.known_table.topics, self._table.topics)
        if topic is None:
            status.due_ms = now_ms + self._heartbeat_ms
        status.known_table, status.sent_ms, status.is_awaiting_response = self._table, now_ms, True
        command = registration_command(self._identity, self._table, topic=topic, opaque=self._next_opaque())
        return NameServerCommand(address, command, topic is None)

    def _due_ms(self, status: _NameServerStatus, more_changes: int = 0) -> int:
        if status.known_table is None:
            return status.due_ms
        changes = more_changes
        if status.known_table is not self._table:
            now, known = (table.version or TableVersion() for table in (self._table, status.known_table))
            changes += max(1, now.counter - known.counter)
        if not changes:
            return status.due_ms
        # A client that creates topics one after the other waits only for the name servers.
        is_next = changes == 1 and not status.is_awaiting_response
        gap_ms = len(self._table.topics) // (_TOPICS_PER_MS_SINGLE if is_next else _TOPICS_PER_MS)
        return min(status.due_ms, status.sent_ms + (gap_ms if is_next else max(self._gap_ms, gap_ms)))

    def _next_opaque(self) -> int:
        self._opaque = (self._opaque + 1) % _OPAQUE_LIMIT
        return self._opaque


def _only_change(known: Mapping[str, TopicConfig], now: Mapping[str, TopicConfig]) -> str | None:
    """Return the topic that differs; None if it is not exactly one, or one was deleted."""
    if any(name not in now for name in known):
        return None
    changed = [name for name, settings in now.items() if known.get(name) != settings]
    return changed[0] if len(changed) == 1 else None
