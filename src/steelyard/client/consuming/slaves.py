"""Pulls at slaves: while a reader is far behind, its master sends it to a slave, whose disk has the time.

A slave hears a heartbeat before the first pull and every 30 s while it is pulled from, or it would not know what the
group wants. Whatever cannot be asked of a slave is asked of the master; one that does not answer, or knows less than it
should, is not asked again for a while.
"""

import asyncio
from collections.abc import Callable

from msgspec import structs

from steelyard.client.session import Session
from steelyard.dialect.voice import Said, Voice
from steelyard.errors import SteelyardError
from steelyard.net.clock import steady_ms
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command

__all__ = ["Slaves"]

_BEAT_MS = 30_000
_REST_MS = 30_000
"""How long a slave that failed is left alone."""
_ANSWER_MS = 3_000
_PULL_MS = 30_000


class Slaves:
    """The slaves that one member pulls from; ``answered`` gets each answer, None where none came."""

    def __init__(self, session: Session, voice: Voice, answered: Callable[[Said, Command | None], None]) -> None:
        self._session, self._voice, self._answered = session, voice, answered
        self._beaten_ms: dict[str, int] = {}
        """By address: when it was last told of us."""
        self._avoid_ms: dict[str, int] = {}
        self._pulls: set[asyncio.Task[None]] = set()

    def takes(self, said: Said) -> bool:
        """Pull from a slave; False: ask the master."""
        if said.to is None:
            return False
        address = self._session.place(said.to).addresses.get(said.broker_id)
        if address is None or self._avoid_ms.get(address, 0) > steady_ms():
            return False
        pull = asyncio.get_running_loop().create_task(self._pull(said, said.to, address))
        self._pulls.add(pull)
        pull.add_done_callback(self._pulls.discard)
        return True

    def end(self) -> None:
        """Wait for no answer any more."""
        for pull in self._pulls:
            pull.cancel()

    async def _pull(self, said: Said, broker: str, address: str) -> None:
        answer: Command | None = None
        try:
            await self._beat(broker, address)
            answer = await self._session.at(address).ask(said.command, _PULL_MS)
        except SteelyardError:
            self._give_up(address)
        else:
            if answer.code not in _GOOD:
                self._give_up(address)
        if answer is not None:
            answer = structs.replace(answer, opaque=said.command.opaque)
        self._answered(said, answer)

    def _give_up(self, address: str) -> None:
        self._beaten_ms.pop(address, None)
        self._avoid_ms[address] = steady_ms() + _REST_MS

    async def _beat(self, broker: str, address: str) -> None:
        now_ms = steady_ms()
        caller = self._session.at(address)
        if caller.is_open and now_ms - self._beaten_ms.get(address, -_BEAT_MS) < _BEAT_MS:
            return
        await caller.ask(self._voice.slave_heartbeat(broker), _ANSWER_MS)
        self._beaten_ms[address] = now_ms


_GOOD = frozenset(
    {
        int(ResponseCode.SUCCESS),
        int(ResponseCode.PULL_NOT_FOUND),
        int(ResponseCode.PULL_RETRY_IMMEDIATELY),
        int(ResponseCode.PULL_OFFSET_MOVED),
    }
)
