"""Apache's broker as a program in the world: a model of what its members can see, not of how it is made.

Everything that the balancing protocol has to live with is here as it is: requests are executed by pools and may change
places, also those of a line that is closed; members are counted by line; locks are believed and live sixty seconds;
offsets are taken from anybody and safe only every five seconds; nobody is fenced. The log itself survives everything.

Left out: replicas, power loss, SQL92, timers with a time of their own, resets, accounts, and everything that is asked
by administrators only: such requests are answered with 3.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from steelyard.broker.registration import Identity
from steelyard.errors import SteelyardError
from steelyard.model import Queue
from steelyard.sim.apache.held import LOOK_MS
from steelyard.sim.apache.log import Log
from steelyard.sim.apache.offsets import FIRST_FLUSH_MS, FLUSH_MS
from steelyard.sim.apache.pools import Pools
from steelyard.sim.apache.registering import Registering
from steelyard.sim.apache.registry import SCAN_MS
from steelyard.sim.apache.relays import RELAY_MS
from steelyard.sim.apache.release import Release
from steelyard.sim.apache.requests.locks import tell_locks
from steelyard.sim.apache.requests.members import line_closed, take_out
from steelyard.sim.apache.requests.pull import pull_again
from steelyard.sim.apache.requests.relay import answered, given_up
from steelyard.sim.apache.requests.table import ADMINISTRATION, HANDLERS
from steelyard.sim.apache.requests.transactions import ask_producers
from steelyard.sim.apache.state import Handler, Kept, State
from steelyard.sim.apache.topics import Topics
from steelyard.sim.facts import Fact, Joined, Logged
from steelyard.sim.line import Line
from steelyard.sim.process import Process
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.hosts import host_bytes

if TYPE_CHECKING:
    from steelyard.sim.timer import Timer
    from steelyard.sim.world import World

__all__ = ["ApacheBrokerProcess"]

_CLUSTER = "DefaultCluster"
_PORT = 10_911
_DELIVERY_MS = 100
"""How late a delayed message may be: Apache looks that often."""

_QUESTIONS_MS = {Release.V4: 60_000, Release.V5: 30_000}
"""Between two rounds of questions about transactions."""


class ApacheBrokerProcess(Process):
    """A broker that is not ours."""

    def __init__(
        self,
        world: "World",
        name: str,
        host: str,
        name_servers: Sequence[str],
        *,
        topics: Mapping[str, int] | None = None,
        version: str = "5.x",
        port: int = _PORT,
        cluster: str = _CLUSTER,
    ) -> None:
        super().__init__(world, name, host)
        self.address = f"{host}:{port}"
        self.release = Release(version)
        self._cluster, self._name_servers = cluster, tuple(name_servers)
        log = Log(host_bytes(self.address))
        self._kept = Kept(log, Topics(name, cluster, topics or {}))
        self._told_changes = 0
        self._delivery: Timer | None = None
        self._registering: Registering | None = None
        self.state = self._new_state()
        self.is_alive = False

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to listen, with what was kept."""
        if self.is_alive:
            return
        self.revive()
        self.state = self._new_state()
        self.state.started_ms = self.clock.wall_ms()
        at_ms, none = self.at_ms(), ""
        self.tell(Joined(at_ms=at_ms, member=self.name, group=none, kind="broker", mode=none, strategy=none, topics=()))
        self.world.network.listen(self, self.address)
        identity = Identity(self._cluster, self.name, 0, self.address, self.address)
        table = self._kept.topics.table(self.clock.wall_ms())
        self._registering = Registering(self, identity, self._name_servers, table)
        self._told_changes = self._kept.topics.changes
        self.after(FIRST_FLUSH_MS, self._flush)
        self.after(SCAN_MS, self._scan)
        self.after(LOOK_MS, self._look)
        self.after(_QUESTIONS_MS[self.release], self._ask_producers)
        self._delivery = None
        self._deliver_later()

    restart = start

    def crash(self) -> None:
        """Kill it: members, locks and up to five seconds of commits are lost."""
        self.kill("crashed")

    def stop(self) -> None:
        """End it in peace: offsets are written, name servers are told."""
        if not self.is_alive:
            return
        self.state.offsets.flush()
        if self._registering is not None:
            self._registering.leave()
        for line in list(self.lines.values()):
            line.close()
        self.kill("left")

    def lose_power(self) -> None:
        """Let its machine die: nobody is told. Its log is there all the same, see above."""
        self.kill("power")

    def died(self, how: str) -> None:
        """Tell of everything that died with it."""
        del how
        state = self.state
        for group in list(state.registry.groups()):
            clients = list(dict.fromkeys(group.lines.values()))
            group.lines.clear()
            for client in clients:
                take_out(state, group, client, "restart")
        state.locks.lose(self.at_ms())
        tell_locks(state)
        # Whoever looks at a dead broker sees what its next life will start with.
        self.state = self._new_state()

    def _new_state(self) -> State:
        return State(
            self._kept,
            name=self.name,
            cluster=self._cluster,
            address=self.address,
            release=self.release,
            hands=self,
            pools=Pools(self.world.random, self.after_us),
        )

    # -- for looking --------------------------------------------------------------------------------------------------

    def logged(self) -> list[Logged]:
        """List every message of its log."""
        return list(self._kept.log.logged(self.name, self.at_ms()))

    def committed(self) -> dict[tuple[str, Queue], int]:
        """Return what groups have committed."""
        return dict(self.state.offsets.table())

    def locks(self) -> list[tuple[str, str, Queue, str]]:
        """List the locks that live: broker, name of the lock, queue, owner."""
        return [(self.name, *lock) for lock in self.state.locks.live(self.clock.wall_ms())]

    def queues(self, topic: str) -> list[Queue]:
        """List the queues of a topic that it has."""
        settings = self._kept.topics.get(topic)
        return [] if settings is None else [Queue(topic, self.name, number) for number in range(settings.read_queues)]

    def set_queues(self, topic: str, queues: int) -> None:
        """Make a topic, or give it another number of queues, as an administrator does."""
        self._kept.topics.put(topic, queues)
        if self.is_alive:
            self.changed()

    # -- lines --------------------------------------------------------------------------------------------------------

    def accepted(self, line: Line) -> None:
        """Take a new line."""
        self.state.lines[line.number] = line

    def opened(self, line: Line) -> None:
        """Speak to a name server."""
        if self._registering is not None and self._registering.owns(line):
            self._registering.opened(line)

    def closed(self, line: Line) -> None:
        """Forget a line and whoever was on it; what it asked for is executed all the same."""
        if self._registering is not None and self._registering.owns(line):
            self._registering.closed(line)
            return
        self.state.lines.pop(line.number, None)
        line_closed(self.state, line.number)

    def heard(self, line: Line, command: Command) -> None:
        """Hand a request to a pool, or pass an answer on."""
        if self._registering is not None and self._registering.owns(line):
            self._registering.heard(line, command)
        elif command.is_answer:
            answered(self.state, line.number, command)
        else:
            is_admin = command.code in ADMINISTRATION
            self.state.pools.submit(partial(self.execute, line, command), is_admin=is_admin)

    def execute(self, line: Line, request: Command) -> None:
        """Execute a request, whether or not its line is still open."""
        self._run(HANDLERS.get(request.code), line, request)

    def wake(self, line: Line, request: Command) -> None:
        """Serve a pull again that waited."""
        self._run(pull_again, line, request)

    def _run(self, handler: Handler | None, line: Line, request: Command) -> None:
        answer: Command | None
        if handler is None:
            remark = f"request type {request.code} not supported"
            answer = self.state.answer(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        else:
            try:
                answer = handler(self.state, request, line, self.clock.wall_ms())
            except SteelyardError as error:
                answer = self.state.answer(request, ResponseCode.SYSTEM_ERROR, remark=str(error))
        if answer is not None and not request.is_oneway:
            line.say(answer)

    # -- what happens by itself ---------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self.state.offsets.flush()
        self.after(FLUSH_MS, self._flush)

    def _scan(self) -> None:
        """Take lines out that were silent for too long, and close them; nobody is told."""
        for number in self.state.registry.silent(self.clock.wall_ms()):
            for group, client in self.state.registry.drop(number):
                take_out(self.state, group, client, "silent")
            line = self.state.lines.pop(number, None)
            if line is not None:
                line.close()
        self.after(SCAN_MS, self._scan)

    def _look(self) -> None:
        for pull in self.state.held.over(self.clock.wall_ms()):
            self.state.pools.submit(partial(self.wake, pull.line, pull.request))
        self.after(LOOK_MS, self._look)

    def _ask_producers(self) -> None:
        ask_producers(self.state, self.clock.wall_ms())
        self.after(_QUESTIONS_MS[self.release], self._ask_producers)

    def _deliver_later(self) -> None:
        next_ms = self._kept.delays.next_ms
        if self._delivery is not None:
            self._delivery.cancel()
            self._delivery = None
        if next_ms is not None:
            late_ms = self.world.random.randint(0, _DELIVERY_MS)
            wait_ms = max(0, next_ms - self.clock.wall_ms()) + late_ms
            # In steps, since the clock on the wall may jump.
            self._delivery = self.after(min(wait_ms, 1_000 + late_ms), self._deliver)

    def _deliver(self) -> None:
        now_ms = self.clock.wall_ms()
        for entry in self._kept.delays.deliver(self._kept.log, now_ms):
            self.state.stored(entry, now_ms)
        self._deliver_later()

    # -- the hands of its handlers ------------------------------------------------------------------------------------

    def at_ms(self) -> int:
        """Return the world's time."""
        return self.world.now_ms()

    def tell(self, fact: Fact) -> None:
        """Tell a fact."""
        self.world.tell(fact)

    def changed(self) -> None:
        """Tell name servers of new topics, and see to messages that wait."""
        if self._told_changes != self._kept.topics.changes and self._registering is not None:
            self._told_changes = self._kept.topics.changes
            self._registering.change(self._kept.topics.table(self.clock.wall_ms()))
        self._deliver_later()

    def relayed(self, line: int, opaque: int) -> None:
        """Give a question up after its time."""
        self.after(RELAY_MS, lambda: given_up(self.state, line, opaque))
