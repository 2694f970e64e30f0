"""Every question ends in time, and those that are answered cost no timer each."""

import asyncio
from collections.abc import Callable
from contextvars import Context

from steelyard.client.pending_requests import FutureResponse, PendingRequest, PendingRequests
from steelyard.errors import ConnectionClosed
from steelyard.wire.command import Command

_LONG_MS = 60_000


class _Late:
    """Who is told of questions whose time is over."""

    def __init__(self) -> None:
        self.opaques: list[int] = []
        self.received = asyncio.Event()
        self.answers: dict[int, asyncio.Future[Command]] = {}
        self.pending = PendingRequests(asyncio.get_running_loop(), self._late)

    def _late(self, opaque: int, asked: PendingRequest) -> None:
        asked.handler.on_error(ConnectionClosed(f"question {asked.code} was late"))
        self.opaques.append(opaque)
        self.received.set()

    def add(self, opaque: int, timeout_ms: int) -> None:
        answer = self.answers[opaque] = asyncio.get_running_loop().create_future()
        self.pending.add(opaque, FutureResponse(answer), 310, timeout_ms)

    async def next(self) -> int:
        while not self.opaques:
            self.received.clear()
            async with asyncio.timeout(10):
                await self.received.wait()
        return self.opaques.pop(0)


def test_a_question_that_is_due_sooner_does_not_wait_for_one_that_is_due_later() -> None:
    async def play() -> None:
        late = _Late()
        late.add(1, _LONG_MS)
        late.add(2, 20)
        assert await late.next() == 2
        assert isinstance(late.answers[2].exception(), ConnectionClosed)
        assert not late.answers[1].done()
        assert 1 in late.pending
        assert 2 not in late.pending

    asyncio.run(play())


def test_questions_that_are_due_one_after_the_other_all_end() -> None:
    async def play() -> None:
        late = _Late()
        for number in range(5):
            late.add(number, 5 + 5 * number)
        assert [await late.next() for _ in range(5)] == list(range(5))
        assert not late.pending

    asyncio.run(play())


def test_one_that_is_asked_after_the_last_was_late_is_watched_too() -> None:
    async def play() -> None:
        late = _Late()
        late.add(1, 5)
        assert await late.next() == 1
        late.add(2, 5)
        assert await late.next() == 2

    asyncio.run(play())


def test_what_is_taken_is_never_late() -> None:
    async def play() -> None:
        late = _Late()
        late.add(1, 5)
        late.add(2, 20)
        asked = late.pending.pop(1)
        assert asked is not None
        asked.handler.on_response(Command(0))
        assert await late.next() == 2
        assert late.answers[1].result().code == 0
        assert late.pending.pop(1) is None

    asyncio.run(play())


def test_taking_all_leaves_none() -> None:
    async def play() -> None:
        late = _Late()
        for number in range(3):
            late.add(number, _LONG_MS)
        assert [asked.code for asked in late.pending.pop_all()] == [310] * 3
        assert not late.pending

    asyncio.run(play())


def test_who_hears_that_one_is_late_may_end_the_others() -> None:
    async def play() -> None:
        late: list[int] = []
        done = asyncio.Event()

        def end_all(opaque: int, _asked: PendingRequest) -> None:
            late.append(opaque)
            pending.pop_all()
            done.set()

        pending = PendingRequests(asyncio.get_running_loop(), end_all)
        for number in range(3):
            pending.add(number, FutureResponse(asyncio.get_running_loop().create_future()), 310, 5)
        async with asyncio.timeout(10):
            await done.wait()
        assert late == [0]

    asyncio.run(play())


def test_many_answered_questions_share_one_timer() -> None:
    class _Counted(asyncio.SelectorEventLoop):
        timers = 0

        def call_at(
            self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
        ) -> asyncio.TimerHandle:
            self.timers += 1
            return super().call_at(when, callback, *args, context=context)

    async def play() -> None:
        late = _Late()
        for number in range(1_000):
            late.add(number, _LONG_MS)
            assert late.pending.pop(number) is not None

    with asyncio.Runner(loop_factory=_Counted) as runner:
        runner.run(play())
        loop = runner.get_loop()
        assert isinstance(loop, _Counted)
        assert loop.timers == 1
