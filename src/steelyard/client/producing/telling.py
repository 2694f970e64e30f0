"""What a producer knows of brokers is told to brokers, for people to look at: with each heartbeat, and when it changes.

A broker that is new, or is avoided, or not any more, is told of at once, but not more than once a second. The ledger
calls whenever it has news, on any thread and in the middle of a send: so all that is done there is to wake a task. It
looks each second until nobody is avoided any more; where nothing goes wrong, nothing is looked at.

Left out: numbers that merely change, which come with the next heartbeat. Brokers of Apache skip what they do not know.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from steelyard.client.producing.pickers import Pickers
from steelyard.net.clock import steady_ms
from steelyard.wire.bodies.heartbeat import LedgerLine

if TYPE_CHECKING:
    from steelyard.client.session import Session

__all__ = ["LedgerTeller"]

_GAP_S = 1.0
_MOST_LINES = 256
"""What a broker keeps of one ledger."""


class LedgerTeller:
    """Tells brokers what is in the ledger of one producer; made on the loop of its session."""

    def __init__(self, session: "Session", pickers: Pickers) -> None:
        self._session, self._pickers = session, pickers
        self._told: dict[str, int] = {}
        """Which brokers were told of, and as what: 0 is avoided, 1 is coming back, 2 is well."""
        self._has_news = self._is_awake = False
        if pickers.watch(self._wake):
            session.ledger = self.lines

    def lines(self) -> list[LedgerLine]:
        """Return what is known of each broker now."""
        now_ms = steady_ms()
        return [
            LedgerLine(
                avoided_ms=None if each.avoided_until_ms is None else max(0, each.avoided_until_ms - now_ms),
                broker=each.broker,
                failures=each.failures,
                latency_ms=each.latency_ms,
                share=round(each.share * 1_000),
                usual_ms=each.usual_ms,
                why=each.why or None,
            )
            for each in self._pickers.look()[:_MOST_LINES]
        ]

    def _wake(self) -> None:
        self._has_news = True
        if not self._is_awake:
            self._is_awake = True
            with suppress(RuntimeError):  # a loop that has ended has nobody to tell
                self._session.loop.call_soon_threadsafe(lambda: self._session.spawn(self._tell_changes()))

    async def _tell_changes(self) -> None:
        is_calm = False
        while self._has_news or not is_calm:
            self._has_news = False
            is_calm = self._pickers.is_calm()  # before the look, so that the last one sees all brokers well
            now = {each.broker: (each.share > 0) + (each.share == 1) for each in self._pickers.look()}
            if now != self._told:
                self._told = now
                await self._session.beat()
            await asyncio.sleep(_GAP_S)
        self._is_awake = False
        if self._has_news:  # between the last look and this
            self._wake()
