"""Java's push consumer as a program in the world, with the weaknesses that it has.

It asks one broker at random who is in the group; drops everything when it does not find itself there; takes and drops
queues without a word to the others; commits without an answer, each 5 seconds and with each pull; sends heartbeats each
30 seconds, and release 4.9 sends none on a new line, so that a broker which was restarted does not know it for a while.
It answers what it has (307) in Java's words and knows none of ours.

Left out: more than one group in a process, POP, lite pull, and giving up a message that is handled for 15 minutes.
"""

from collections.abc import MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from steelyard.balance.member_options import Mode
from steelyard.model import Queue
from steelyard.sim.apache.java_beats import beat_all, beat_command, say_goodbye, subscriptions
from steelyard.sim.apache.java_calls import Calls, Script
from steelyard.sim.apache.java_handling import Concurrent, Handling, Orderly
from steelyard.sim.apache.java_locks import lock_all, unlock_all
from steelyard.sim.apache.java_pulling import Puller
from steelyard.sim.apache.java_rebalance import Round
from steelyard.sim.apache.java_routes import look_up_all
from steelyard.sim.apache.java_state import JavaOptions, JavaState, UserCode
from steelyard.sim.apache.release import Release
from steelyard.sim.facts import Joined, Planned, RoundBegan
from steelyard.sim.line import Line
from steelyard.sim.process import Process
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.running import QueueState, RunningState
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import RESPONSE, Command
from steelyard.wire.maps import ByQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from steelyard.sim.timer import Timer
    from steelyard.sim.world import World

__all__ = ["JavaMemberProcess"]

_REBALANCE_MS = 20_000
_REBALANCE_SOON_MS = 1_000
"""Release 5: between two rounds at least, and after one that left something unbalanced."""
_LOCK_MISSING_MS = 500
_BEAT_MS, _ROUTE_MS, _PERSIST_MS, _LOCK_MS = 30_000, 30_000, 5_000, 20_000
_FIRST_PERSIST_MS, _FIRST_LOCK_MS, _FIRST_BEAT_MS = 10_000, 1_000, 1_000
_FIRST_PULL_MS = {Release.V4: 0, Release.V5: 500}


class JavaMemberProcess(Process):
    """One member of one group that is not ours. Its name in the world is its client id."""

    def __init__(
        self,
        world: "World",
        options: JavaOptions,
        host: str,
        name_servers: Sequence[str],
        work: UserCode,
        offsets: MutableMapping[Queue, int] | None = None,
    ) -> None:
        super().__init__(world, options.id, host)
        self.options, self.group = options, options.group
        self._calls = Calls(self, self._line_opened, fails_fast=Release(options.version) is Release.V5)
        file = {} if offsets is None else offsets
        self._state = JavaState(self, self._calls, options, name_servers, file, self._wake)
        self._handling: Handling = (Orderly if options.mode is Mode.ORDERLY else Concurrent)(self._state, work)
        self._puller = Puller(self._state, self._handling.submit)
        self._is_rebalancing = self._is_woken = False
        self._rebalanced_ms = -_REBALANCE_MS
        self._timer: Timer | None = None
        self._plan: tuple[Queue, ...] | None = None
        self._parts: dict[str, tuple[Queue, ...]] = {}

    # -- for those who tell it what to do -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Start it."""
        options = self.options
        self.world.tell(
            Joined(
                at_ms=self.world.now_ms(),
                member=options.id,
                group=options.group,
                kind="java",
                mode=options.mode.value,
                strategy=options.strategy.name,
                topics=tuple(sorted(options.topics)),
            )
        )
        self._calls.run(self._start(), self._started)

    def leave(self, drain_ms: int | None = None) -> None:
        """Let it commit, unlock and say goodbye; Java does not wait for the user's code, however long it may."""
        del drain_ms
        self.after(0, self._leave)

    def held(self) -> list[Queue]:
        """List the queues that it has and did not drop."""
        return sorted(queue for queue, known in self._state.queues.items() if not known.is_dropped)

    @property
    def plan(self) -> tuple[Queue, ...]:
        """What is its own by its last plan."""
        return self._plan or ()

    # -- its start, its end, and what it does every now and then ------------------------------------------------------

    def _start(self) -> Script[None]:
        yield from look_up_all(self._state)
        yield from beat_all(self._state)

    def _started(self, _: None) -> None:
        self._every(_BEAT_MS, self._beat, _FIRST_BEAT_MS)
        self._every(_ROUTE_MS, self._refresh, _ROUTE_MS)
        if self.options.mode is Mode.ORDERLY:
            self._every(_LOCK_MS, self._lock_again, _FIRST_LOCK_MS)
        self._every(_PERSIST_MS, self._state.persist_all, _FIRST_PERSIST_MS)
        self._wake()

    def _every(self, period_ms: int, act: "Callable[[], None]", first_ms: int) -> None:
        def again() -> None:
            if not self._state.is_stopped:
                act()
                self.after(period_ms, again)

        self.after(first_ms, again)

    def _beat(self) -> None:
        self._calls.run(beat_all(self._state), _nothing)

    def _refresh(self) -> None:
        self._calls.run(look_up_all(self._state), _nothing)

    def _lock_again(self) -> None:
        self._calls.run(lock_all(self._state), _nothing)

    def _leave(self) -> None:
        if not self._state.is_stopped:
            self._state.is_stopped = True
            self._calls.run(self._end(), self._ended)

    def _end(self) -> Script[None]:
        state = self._state
        if state.is_orderly:
            yield from unlock_all(state)
        state.persist_all()
        yield from say_goodbye(state)

    def _ended(self, _: None) -> None:
        for line in list(self.lines.values()):
            line.close()
        self.kill("left")

    # -- the thread that rebalances -----------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Rebalance now, or once more if it is at it."""
        if self._is_rebalancing:
            self._is_woken = True
        else:
            self._rebalance_in(0)

    def _rebalance_in(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.after(delay_ms, self._rebalance)

    def _rebalance(self) -> None:
        if self._state.is_stopped or self._is_rebalancing:
            return
        passed_ms = self.clock.steady_ms() - self._rebalanced_ms
        if self._state.release is Release.V5 and passed_ms < _REBALANCE_SOON_MS:
            self._rebalance_in(_REBALANCE_SOON_MS - passed_ms)
            return
        self._is_rebalancing = True
        self.world.tell(RoundBegan(at_ms=self.world.now_ms(), member=self.options.id, group=self.group))
        found = Round(self._state)
        self._calls.run(found.run(), lambda _: self._rebalanced(found))

    def _rebalanced(self, found: Round) -> None:
        self._is_rebalancing = False
        self._rebalanced_ms = self.clock.steady_ms()
        self._tell_plan(found)
        for known in found.taken:
            self.after(_FIRST_PULL_MS[self._state.release], partial(self._puller.pull, known))
        is_new = self._state.release is Release.V5
        wait_ms = _REBALANCE_SOON_MS if is_new and not found.is_balanced else _REBALANCE_MS
        if is_new and found.is_lock_missing:
            wait_ms = _LOCK_MISSING_MS
        if self._is_woken:
            self._is_woken, wait_ms = False, 0
        self._rebalance_in(wait_ms)

    def _tell_plan(self, found: Round) -> None:
        self._parts |= found.planned
        plan = tuple(queue for topic in sorted(self._parts) for queue in self._parts[topic])
        if found.planned and plan != self._plan:
            self._plan = plan
            self.world.tell(
                Planned(
                    at_ms=self.world.now_ms(),
                    member=self.options.id,
                    group=self.group,
                    queues=plan,
                    strategy=self.options.strategy.name,
                    members=found.members,
                )
            )

    # -- lines --------------------------------------------------------------------------------------------------------

    def opened(self, line: Line) -> None:
        """Take note that a line is open."""
        self._calls.opened(line)

    def closed(self, line: Line) -> None:
        """Take note that a line is gone."""
        self._calls.lost(line)

    def heard(self, line: Line, command: Command) -> None:
        """Take an answer, or a word of a broker."""
        if command.is_answer:
            self._calls.answered(line, command)
        elif command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._wake()
        elif command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            line.say(self._answer(command, ResponseCode.SUCCESS, encode_body(self._running_state())))
        elif not command.is_oneway:
            line.say(self._answer(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED))

    def _line_opened(self, address: str) -> None:
        """Release 5 says that it is here on every new line to a broker."""
        if self._state.release is Release.V5 and address in self._state.addresses.values():
            self._calls.ask(address, beat_command(self._state), 3_000, self._beaten)

    def _beaten(self, answer: Command | None) -> None:
        if answer is not None and answer.code == ResponseCode.SUCCESS:
            self._wake()

    def _answer(self, request: Command, code: int, body: bytes = b"") -> Command:
        version = self._state.release.client_version
        return Command(code, {}, body, request.opaque, RESPONSE, None, version, "JAVA", request.header_type)

    def _running_state(self) -> RunningState:
        """Say what it has, dropped queues that it could not let go yet among it."""
        state = self._state
        queues = {
            queue: QueueState(
                cached_messages=known.messages,
                commit_offset=state.offsets.get(queue, 0),
                dropped=known.is_dropped,
                consumed_ms=known.handled_ms,
                locked=known.is_locked,
                locked_ms=known.locked_ms,
                pulled_ms=known.pulled_ms,
                unlock_tries=known.unlock_tries,
            )
            for queue, known in sorted(state.queues.items())
        }
        return RunningState(queues=ByQueue(queues), subscriptions=subscriptions(state))


def _nothing(_: None) -> None:
    """Do nothing with a result that is none."""
