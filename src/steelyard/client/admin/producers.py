"""Producers: who sends, as brokers know it from heartbeats.

A producer says hello to the brokers that it has sent to, so each broker knows only some: what several tell is put
together. Producers of ours that keep a ledger (``avoid_slow_brokers``) tell it to brokers of ours: then it can be seen
here who walks around which broker, and why. Left out: what producers send, which brokers do not count by producer.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from steelyard.client.admin.asking import Asking
from steelyard.client.admin.times import moment
from steelyard.client.nearest import nearest
from steelyard.errors import GroupNotFound, error_for
from steelyard.model.names import DEFAULT_PRODUCERS, is_system_group
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import LedgerLine
from steelyard.wire.bodies.members import ClientWord, ProducerConnections, ProducerTable
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.admin import ProducerGroup
from steelyard.wire.releases import release

__all__ = ["LedgerRow", "ProducerLine", "Producers"]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What a producer knows of one broker."""

    broker: str
    latency_ms: int
    """Of its last attempt; a failure counts as a fixed long time."""
    usual_ms: int | None
    """What answers of this broker usually take, the latest counting most; None if it never answered."""
    share: float
    """The part of its turns that the broker gets: 0 while it is avoided, 1 when all is well."""
    avoided_ms: int | None
    """For how long it will be avoided still; None if it is not, or not any more."""
    why: str
    """Why it does not get all its turns; empty if it does."""
    failures: int
    """Attempts that failed, since the producer knows this broker."""


@dataclass(frozen=True, slots=True)
class ProducerLine:
    """A producer of a group, as its brokers know it."""

    group: str
    id: str
    address: str
    """Of its line to one of the brokers."""
    language: str
    release: str
    brokers: tuple[str, ...]
    """Where it is registered."""
    seen_at: datetime | None = None
    """When it said hello last; told only of all producers."""
    ledger: tuple[LedgerRow, ...] | None = None
    """What it knows of brokers, by name; None if nobody tells: it keeps none, or it or the broker is Apache's."""
    told_at: datetime | None = None
    """When it told its ledger last."""


class Producers(Asking):
    """What an administrator asks about producers."""

    async def producers(self) -> list[ProducerLine]:
        """List every producer that brokers know, by group."""
        places = await self._places()
        found: list[ProducerLine] = []
        for place, answer in await self._ask_all(places.values(), RequestCode.GET_ALL_PRODUCER_INFO):
            if answer.code != ResponseCode.SUCCESS:
                raise error_for(answer.code, answer.remark or "", server=place.name)
            for group, lines in decode_body(ProducerTable, answer.body).groups.items():
                # The default group is ours to show: whoever sends without a group of its own is in it.
                if group == DEFAULT_PRODUCERS or (self._is_here(group) and not is_system_group(group)):
                    found += (
                        ProducerLine(
                            self._names.bare(group),
                            line.client_id or "",
                            (line.remote_ip or "").removeprefix(
                                "/"
                            ),  # Java writes an address with a name before it, or without
                            line.language or "",
                            release(line.version),
                            (place.name,),
                            moment(line.seen_ms),
                            *_ledger(line.steelyard),
                        )
                        for line in lines
                    )
        return _put_together(found)

    async def producer(self, group: str) -> list[ProducerLine]:
        """List the producers of a group; a group without any is an error that says which was meant."""
        places = await self._places()
        asked = ProducerGroup(self._names.full(group))
        answers = await self._ask_all(places.values(), RequestCode.GET_PRODUCER_CONNECTION_LIST, asked)
        found = [
            ProducerLine(
                group,
                line.client_id or "",
                line.client_address or "",
                line.language or "",
                release(line.version),
                (place.name,),
                None,
                *_ledger(line.steelyard),
            )
            for place, answer in answers
            # Who is not there is an error of the server's without a code of its own.
            if answer.code == ResponseCode.SUCCESS
            for line in decode_body(ProducerConnections, answer.body).connections
        ]
        if not found:
            known = sorted({each.group for each in await self.producers()})
            meant = nearest(group, known)
            raise GroupNotFound(
                code=int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
                server=str(self._connect),
                what=f"no producer of group {group!r} is online on {self._connect} (asked {', '.join(places)}).",
                next_step=f"Did you mean {meant!r}?" if meant else f"Online are: {', '.join(known) or 'none'}",
            )
        return _put_together(found)


def _put_together(lines: Iterable[ProducerLine]) -> list[ProducerLine]:
    """Make one of what several brokers tell of the same producer."""
    found: dict[tuple[str, str], ProducerLine] = {}
    for line in lines:
        known = found.setdefault((line.group, line.id), line)
        seen_at = max((each for each in (known.seen_at, line.seen_at) if each is not None), default=None)
        brokers = tuple(sorted({*known.brokers, *line.brokers}))
        # All brokers are told the same, but not all at the same time.
        newest = max(known, line, key=lambda each: _LONG_AGO if each.told_at is None else each.told_at)
        found[line.group, line.id] = replace(
            known, brokers=brokers, seen_at=seen_at, ledger=newest.ledger, told_at=newest.told_at
        )
    return [found[key] for key in sorted(found)]


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def _ledger(word: ClientWord | None) -> tuple[tuple[LedgerRow, ...] | None, datetime | None]:
    """Return the ledger of a producer, and when it was told."""
    if word is None or word.ledger is None:
        return None, None
    told_at = datetime.now(UTC) - timedelta(milliseconds=min(max(0, word.ago_ms), _LONGEST_AGO_MS))
    return tuple(_row(line) for line in sorted(word.ledger, key=lambda line: line.broker)), told_at


_LONGEST_AGO_MS = 366 * 24 * 3_600_000
"""A broker that says more is mistaken, and no date may come of it that cannot be."""


def _row(line: LedgerLine) -> LedgerRow:
    return LedgerRow(
        line.broker,
        line.latency_ms,
        line.usual_ms,
        min(1.0, max(0.0, line.share / 1_000)),
        line.avoided_ms,
        line.why or "",
        line.failures,
    )
