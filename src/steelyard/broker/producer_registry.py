"""Producer registry: producers by group and connection, for transaction checks and replies (ProducerManager).

Each producer has the time of its last heartbeat in a group: a client may have several connections, and a group that it
no longer reports expires. Beside the groups stands which client uses which connection, and the latest latency report of
each connection, shortened if it is too long, and dropped if there are too many.
"""

from collections.abc import Iterable

from msgspec import Struct, structs

from steelyard.broker.request_errors import system_error
from steelyard.wire.bodies.heartbeat import BrokerLatencyReport
from steelyard.wire.bodies.members import ClientExtension
from steelyard.wire.command import Peer

_MAX_PRODUCERS = 100_000

_MAX_LATENCY_ROWS = 16_384
"""Of all reports together: a response with all of them has to fit into a frame."""
_MAX_REPORT_ROWS = 256
_MAX_BROKER_LENGTH = 255
_MAX_REASON_LENGTH = 200


class RegisteredProducer(Struct, gc=False):
    """One client on one connection, as a producer of one group."""

    id: str
    peer: Peer
    language: str
    version: int
    last_seen_ms: int


class _LatencyReport(Struct, frozen=True, gc=False):
    """The latency report of a connection, and when it came."""

    rows: tuple[BrokerLatencyReport, ...]
    at_ms: int
    weight: int
    """Rows that it adds to a response: it is repeated with each group of the connection."""


class ProducerRegistry:
    """Producers and their connections."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, RegisteredProducer]] = {}
        self._groups_by_connection: dict[int, set[str]] = {}
        self._client_by_connection: dict[int, str] = {}
        self._connections_by_client: dict[str, dict[int, Peer]] = {}
        self._last_used: dict[str, int] = {}
        self._count = 0
        self._latency_reports: dict[int, _LatencyReport] = {}
        self._latency_rows = 0

    def record_client(self, client_id: str, peer: Peer) -> None:
        """Record which client uses a connection, producer or not."""
        before = self._client_by_connection.get(peer.connection_id)
        if before != client_id:
            self._forget_client(peer.connection_id)
            self._client_by_connection[peer.connection_id] = client_id
            self._connections_by_client.setdefault(client_id, {})[peer.connection_id] = peer

    def _forget_client(self, number: int) -> None:
        client_id = self._client_by_connection.pop(number, None)
        if client_id is not None:
            connections = self._connections_by_client[client_id]
            del connections[number]
            if not connections:
                del self._connections_by_client[client_id]

    def register(self, group: str, producer: RegisteredProducer) -> None:
        """Register or refresh a producer."""
        connections = self._groups.setdefault(group, {})
        number = producer.peer.connection_id
        if number not in connections:
            if self._count >= _MAX_PRODUCERS:
                self._drop_if_empty(group)
                raise system_error(f"this broker has {self._count} producers and accepts no more")
            self._count += 1
            self._groups_by_connection.setdefault(number, set()).add(group)
        connections[number] = producer

    def unregister(self, group: str, peer: Peer) -> None:
        """Remove a connection from a group."""
        if self._groups.get(group, {}).pop(peer.connection_id, None) is None:
            return
        self._count -= 1
        self._drop_if_empty(group)
        groups = self._groups_by_connection[peer.connection_id]
        groups.discard(group)
        if not groups:
            del self._groups_by_connection[peer.connection_id]
            self._drop_latency_report(peer.connection_id)

    def _drop_if_empty(self, group: str) -> None:
        if not self._groups[group]:
            del self._groups[group]
            self._last_used.pop(group, None)

    def connection_closed(self, peer: Peer) -> None:
        """Remove a closed connection."""
        for group in list(self._groups_by_connection.get(peer.connection_id, ())):
            self.unregister(group, peer)
        self._forget_client(peer.connection_id)

    def shift_deadlines(self, shift_ms: int, now_ms: int) -> None:
        """Postpone all expiries, since heartbeats could not be received for a while."""
        for connections in self._groups.values():
            for producer in connections.values():
                producer.last_seen_ms = max(producer.last_seen_ms, min(producer.last_seen_ms + shift_ms, now_ms))

    def expire(self, seen_before_ms: int) -> None:
        """Remove producers whose last heartbeat was before this time."""
        for group in list(self._groups):
            for producer in [each for each in self._groups[group].values() if each.last_seen_ms < seen_before_ms]:
                self.unregister(group, producer.peer)

    def record_latency_report(self, peer: Peer, rows: tuple[BrokerLatencyReport, ...] | None, now_ms: int) -> None:
        """Store the latency report of a connection, replacing the previous one."""
        self._drop_latency_report(peer.connection_id)
        if rows is None or peer.connection_id not in self._groups_by_connection:
            return
        kept = tuple(map(_truncate_row, rows[:_MAX_REPORT_ROWS]))
        weight = len(kept) * len(self._groups_by_connection[peer.connection_id])
        if self._latency_rows + weight <= _MAX_LATENCY_ROWS:
            self._latency_reports[peer.connection_id] = _LatencyReport(kept, now_ms, weight)
            self._latency_rows += weight

    def _drop_latency_report(self, number: int) -> None:
        report = self._latency_reports.pop(number, None)
        if report is not None:
            self._latency_rows -= report.weight

    def latency_report_of(self, producer: RegisteredProducer, now_ms: int) -> ClientExtension | None:
        """Return a producer's latency report, brought up to date; None if it has none."""
        report = self._latency_reports.get(producer.peer.connection_id)
        if report is None:
            return None
        ago_ms = max(0, now_ms - report.at_ms)
        return ClientExtension(ago_ms=ago_ms, broker_latency=tuple(_count_down(row, ago_ms) for row in report.rows))

    def next_connection(self, group: str) -> Peer | None:
        """Return a connection of the group, in turn, or None."""
        connections = self._groups.get(group)
        if not connections:
            return None
        later = [number for number in connections if number > self._last_used.get(group, -1)]
        number = self._last_used[group] = min(later or connections)
        return connections[number].peer

    def connection_of(self, client_id: str) -> Peer | None:
        """Return the newest connection of a client, producer or not, or None."""
        connections = self._connections_by_client.get(client_id)
        return connections[max(connections)] if connections else None

    def in_group(self, group: str) -> list[RegisteredProducer]:
        """List the producers of a group, ordered by connection."""
        connections = self._groups.get(group, {})
        return [connections[number] for number in sorted(connections)]

    def group_names(self) -> Iterable[str]:
        """List the groups that have producers."""
        return sorted(self._groups)


def _truncate_row(row: BrokerLatencyReport) -> BrokerLatencyReport:
    if len(row.broker) <= _MAX_BROKER_LENGTH and len(row.why or "") <= _MAX_REASON_LENGTH:
        return row
    return structs.replace(row, broker=row.broker[:_MAX_BROKER_LENGTH], why=(row.why or "")[:_MAX_REASON_LENGTH])


def _count_down(row: BrokerLatencyReport, ago_ms: int) -> BrokerLatencyReport:
    """Reduce how long a broker is still avoided: that ends without a report."""
    if row.avoided_ms is None:
        return row
    left_ms = row.avoided_ms - ago_ms
    return structs.replace(row, avoided_ms=left_ms if left_ms > 0 else None)
