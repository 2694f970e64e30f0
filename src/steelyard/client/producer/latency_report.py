"""Latency report: sends a producer's broker latencies to the brokers, for people to read, in its heartbeats.

A broker that appears, is avoided or available again is reported at once, at most once a second. The latency tracker
notifies on any thread in the middle of a send, so the callback only wakes a task. The task polls each second until no
broker is avoided; while nothing goes wrong it does not run.

Left out: changed latencies alone, which go with the next heartbeat. Apache's brokers ignore the report.
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from steelyard.client.producer.prepare import QueueRotations
from steelyard.net.clock import steady_ms
from steelyard.wire.bodies.heartbeat import BrokerLatencyReport

if TYPE_CHECKING:
    from steelyard.client.session import Session

_MIN_INTERVAL_S = 1.0
_MAX_BROKERS = 256
"""How many entries a broker keeps of one producer."""


class LatencyReporter:
    """Reports the latencies of one producer; made on the loop of its session."""

    def __init__(self, session: "Session", rotations: QueueRotations) -> None:
        self._session, self._rotations = session, rotations
        self._reported: dict[str, int] = {}
        """The last report, by broker: 0 is avoided, 1 is coming back, 2 is available."""
        self._has_changes = self._is_running = False
        if rotations.watch_latency(self._wake):
            session.latency_report = self.report

    def report(self) -> list[BrokerLatencyReport]:
        """Return the latency and failures of each broker."""
        now_ms = steady_ms()
        return [
            BrokerLatencyReport(
                avoided_ms=None if each.avoided_until_ms is None else max(0, each.avoided_until_ms - now_ms),
                broker=each.broker,
                failures=each.failures,
                latency_ms=each.latency_ms,
                share=round(each.share * 1_000),
                typical_ms=each.usual_ms,
                why=each.why or None,
            )
            for each in self._rotations.latency_snapshot()[:_MAX_BROKERS]
        ]

    def _wake(self) -> None:
        self._has_changes = True
        if not self._is_running:
            self._is_running = True
            with suppress(RuntimeError):  # the loop has ended
                self._session.loop.call_soon_threadsafe(lambda: self._session.spawn(self._report_changes()))

    async def _report_changes(self) -> None:
        is_calm = False
        while self._has_changes or not is_calm:
            self._has_changes = False
            is_calm = self._rotations.is_calm()  # before the snapshot, so that the last one has all brokers available
            now = {each.broker: (each.share > 0) + (each.share == 1) for each in self._rotations.latency_snapshot()}
            if now != self._reported:
                self._reported = now
                await self._session.send_heartbeats()
            await asyncio.sleep(_MIN_INTERVAL_S)
        self._is_running = False
        if self._has_changes:  # since the last snapshot
            self._wake()
