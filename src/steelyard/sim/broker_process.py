"""A broker in a simulated world: the real core, on a disk that forgets, with lines that break.

What serve/broker.py and serve/disk_work.py do with sockets and threads is done here with turns: each read is flushed
once, syncs and saves are begun, take a drawn time, and touch the disk at the end of it, so that a crash in between
finds nothing done. Every request that a line brought is answered by the core alone.

It tells facts (sim/watching.py) and, of its own life: `Joined` with kind ``broker``, `Gone`, and situations that come
up when it starts again on what its last life left.
"""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from steelyard.broker.core import Broker, Replies
from steelyard.broker.options import BrokerOptions
from steelyard.broker.saving import Save
from steelyard.errors import SteelyardError, StoreError
from steelyard.model import Queue
from steelyard.sim.announcing import Announcing
from steelyard.sim.chance import Chance
from steelyard.sim.disk import ForgettingDisk, ProcessDied
from steelyard.sim.facts import Logged, Refused, Situation
from steelyard.sim.line import Line
from steelyard.sim.process import Process
from steelyard.sim.watching import Ear, WatchedLocks, WatchedMembers, WatchedOffsets
from steelyard.store.options import StoreOptions
from steelyard.store.syncing import SyncJob
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import CommitOffset
from steelyard.wire.hosts import host_bytes
from steelyard.wire.peers import Hangup, Peer
from steelyard.wire.record import read_records

if TYPE_CHECKING:
    from steelyard.sim.world import World

__all__ = ["BrokerProcess"]

_TICK_MS = 100
_SEGMENT_BYTES = 1 << 16
_AGAIN_MS = 1_000
"""How long whoever runs a broker that could not start waits before the next try."""
_COMMIT = int(RequestCode.UPDATE_CONSUMER_OFFSET)


class BrokerProcess(Process):
    """One broker. It runs from `start` on; `restart` starts it again on what is left on its disk."""

    def __init__(
        self,
        world: "World",
        options: BrokerOptions,
        name_servers: Iterable[str],
        *,
        segment_bytes: int = _SEGMENT_BYTES,
    ) -> None:
        super().__init__(world, options.name, options.host)
        self.options, self.name_servers = options, tuple(name_servers)
        self.disk = ForgettingDisk(Chance(world.random.getrandbits(64)))
        self._store_options = StoreOptions(
            segment_bytes=segment_bytes, keep_ms=None, store_host=host_bytes(options.address)
        )
        self._ear = Ear(options.name, world.tell, world.now_ms)
        self.broker: Broker | None = None
        """Its core, while it runs."""
        self._peers: dict[int, Peer] = {}
        self._is_syncing = self._is_refusing = False
        self._is_changed = False
        """Whether the read at hand made or removed a topic."""
        self._end_before: int | None = None
        """Where the log ended when the last life did."""
        self.is_alive = False

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the directory, take lines, register; if the disk does not let it, try again later."""
        if self.is_alive:
            return
        self.revive()
        try:
            broker = Broker.open(self.options, self.disk, self._store_options, now_ms=self.clock.wall_ms())
        except (ProcessDied, StoreError) as error:
            self._situation("a broker could not start", why=str(error)[:200])
            self.kill("crashed")
            self.world.at(_AGAIN_MS * 1000, self.start)
            return
        self.broker = broker
        self._watch(broker)
        self._is_syncing = self._is_changed = self._is_refusing = False
        self._announcing = Announcing(self, broker.state, self.name_servers)
        self.tell_server("broker")
        self._tell_recovery(broker)
        self.world.network.listen(self, self.options.address)
        self._announcing.tick()
        self.after(_TICK_MS, self._tick)

    def restart(self) -> None:
        """Start it again on what its last life left; nothing happens if it runs."""
        self.start()

    def _watch(self, broker: Broker) -> None:
        """Let the core's tables tell what happens to them."""
        state, ear, now_ms = broker.state, self._ear, self.clock.wall_ms()
        ear.peer = ear.epoch = None
        self._members = WatchedMembers(ear, self.options.max_members, now_ms)
        known = [group.name for group in state.groups]
        self._locks = WatchedLocks(ear, now_ms, self.options.settle_ms, known, state.moves)
        state.members, state.locks = self._members, self._locks
        state.offsets = self._offsets = WatchedOffsets(ear, state.offsets, self._members)
        self._topics = state.topics

    def _tell_recovery(self, broker: Broker) -> None:
        for damage in broker.state.store.damages:
            name = "recovery cut a tail" if damage.what == "cut off" else "recovery found damage"
            self._situation(name, what=str(damage)[:200])
        if self._end_before is not None and broker.state.store.end < self._end_before:
            self._situation("a start found less than was written", bytes=str(self._end_before - broker.state.store.end))
        if any("beyond the end" in note for note in broker.state.notes):
            self._situation("offsets were beyond the end of their queues")

    def _situation(self, name: str, **about: str) -> None:
        self.world.tell(Situation(at_ms=self.world.now_ms(), name=name, about={"broker": self.name, **about}))

    def stop(self) -> None:
        """Close it in order: name servers and clients hear of it, everything is written."""
        broker = self.broker
        if broker is None:
            return
        try:
            self._announcing.leave()
            self._post(broker.flush(self.clock.wall_ms()))
            for line in list(self.lines.values()):
                line.close()
            broker.close(self.clock.wall_ms())
        except ProcessDied:
            self.kill("crashed")
        except StoreError as error:
            self.world.journal.remark(f"{self.name} could not close in order: {error}")
            self.kill("crashed")
        else:
            self.kill("left")

    def crash(self) -> None:
        """Let the process die where it stands; its machine goes on, and what was written is there."""
        self.kill("crashed")

    def lose_power(self) -> None:
        """Let the machine die: nobody is told, and of the disk is left what was safe, and some of the rest."""
        self.kill("power")

    def died(self, how: str) -> None:
        """Leave a disk for the next life; what the core knew is gone."""
        if self.broker is not None:
            self._members.tell_restart()
            self._locks.tell_restart()
            self._end_before = None if how == "left" else self.broker.state.store.end
            self.broker = None
        self._peers.clear()
        if how == "power":
            self.disk = self.disk.lose_power()
        elif how != "left":
            self.disk = self.disk.crash()

    # -- lines --------------------------------------------------------------------------------------------------------

    def accepted(self, line: Line) -> None:
        """Take a new line."""
        self._peers[line.number] = line.peer()

    def heard(self, line: Line, command: Command) -> None:
        """Give a command to the core; one of a name server is for the announcing."""
        peer, broker = self._peers.get(line.number), self.broker
        if broker is None:
            return
        if peer is None:
            self._announcing.heard(line, command)
            return
        changes, now_ms = self._topics.changes, self.clock.wall_ms()
        self._ear.peer = peer
        if command.code == _COMMIT and not command.is_answer:
            replies = self._commit(broker, command, peer, now_ms)
        else:
            replies = broker.handle(command, peer, now_ms)
        self._ear.peer = None
        if changes != self._topics.changes:
            self._is_changed = True
            self._hold(replies)
        elif replies:
            self._post(replies)

    def _commit(self, broker: Broker, command: Command, peer: Peer, now_ms: int) -> Replies:
        """Let the core judge a commit, and tell of it if it was refused."""
        try:
            header = command.header(CommitOffset)
        except SteelyardError:
            return broker.handle(command, peer, now_ms)
        fenced = self._offsets.fenced
        self._ear.epoch = header.lock_epoch
        replies = broker.handle(command, peer, now_ms)
        self._ear.epoch = None
        if self._offsets.fenced != fenced:
            member = self._members.on_line(peer, header.consumer_group)
            refused = Refused(
                at_ms=self.world.now_ms(),
                group=header.consumer_group,
                queue=Queue(header.topic, self.name, header.queue_id),
                offset=header.commit_offset,
                member=None if member is None else member.id,
            )
            self.world.tell(refused)
        return replies

    def settled(self, line: Line) -> None:
        """Write what a read brought, and start a sync if somebody waits for one."""
        broker = self.broker
        if broker is None or line.number not in self._peers:
            return
        now_ms = self.clock.wall_ms()
        replies = broker.flush(now_ms)
        self._sync(broker, now_ms)
        if self._is_changed:
            self._is_changed = False
            self._hold(replies)
        elif replies:
            self._post(replies)

    def closed(self, line: Line) -> None:
        """Let the core know that a line is gone."""
        peer, broker = self._peers.pop(line.number, None), self.broker
        if broker is None:
            return
        if peer is None:
            self._announcing.closed(line)
        else:
            self._post(broker.closed(peer, self.clock.wall_ms()))

    def _hold(self, replies: Replies) -> None:
        if replies:
            self._announcing.hold(partial(self._post, replies))

    def _post(self, replies: Replies) -> None:
        lines = self.lines
        for reply in replies:
            line = lines.get(reply.peer.number)
            if line is None:
                continue
            if isinstance(reply, Hangup):
                line.close()
                self.closed(line)
            else:
                line.say(reply.command)

    # -- time and disk ------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        broker = self.broker
        if broker is None:
            return
        now_ms = self.clock.wall_ms()
        self._post(broker.tick(now_ms))
        self._sync(broker, now_ms)
        for job in broker.saves(now_ms):
            self.after_us(self._drawn_us(), partial(self._save, broker, job))
        self._announcing.tick()
        broker.state.notes.clear()
        if not self._is_refusing and broker.state.store.refusal is not None:
            self._is_refusing = True
            self._situation("a broker refuses writes", why=broker.state.store.refusal[:200])
        self.after(_TICK_MS, self._tick)

    def _sync(self, broker: Broker, now_ms: int) -> None:
        if self._is_syncing or not broker.wants_sync(now_ms):
            return
        job = broker.begin_sync(now_ms)
        if job.files:
            self._is_syncing = True
            self.after_us(self._drawn_us(), partial(self._synced, broker, job))
        else:
            job.run()
            self._hold(broker.end_sync(job))

    def _synced(self, broker: Broker, job: SyncJob) -> None:
        job.run()
        self._is_syncing = False
        self._hold(broker.end_sync(job))
        self._sync(broker, self.clock.wall_ms())

    def _save(self, broker: Broker, job: Save) -> None:
        job.run()
        broker.saved(job, self.clock.wall_ms())

    def _drawn_us(self) -> int:
        """Draw how long the disk takes: mostly a moment, seldom long."""
        drawn = self.world.random.random()
        return int(300 + 5_000 * drawn) if drawn < 0.97 else int(5_000 + 4_000_000 * (drawn - 0.97))

    @property
    def is_refusing(self) -> bool:
        """Whether it takes no writes since its disk failed: a restart mends that."""
        return self.broker is not None and self.broker.state.store.refusal is not None

    # -- looking ------------------------------------------------------------------------------------------------------

    def logged(self) -> list[Logged]:
        """Read every message of every queue, the broker's own topics too."""
        broker, at_ms = self.broker, self.world.now_ms()
        found: list[Logged] = []
        for key, queue_id in broker.state.store.queues() if broker is not None else ():
            assert broker is not None
            queue, store = Queue(key.decode(), self.name, queue_id), broker.state.store
            low, high = store.bounds(key, queue_id)
            read = store.read(key, queue_id, low, most=max(1, high - low), most_bytes=1 << 30)
            found += [
                Logged(
                    at_ms=at_ms,
                    queue=queue,
                    offset=record.offset,
                    uid=record.body.decode(errors="replace"),
                    reconsume_times=record.reconsume_times,
                )
                for record in read_records(read.joined())
            ]
        return found

    def committed(self) -> dict[tuple[str, Queue], int]:
        """Return what every group committed in every queue; the broker's own progress too."""
        if self.broker is None:
            return {}
        offsets = self.broker.state.offsets
        return {
            (group, Queue(topic, self.name, queue_id)): offset
            for topic, group in sorted(_pairs(offsets.table().offsets))
            for queue_id, offset in sorted(offsets.of(group, topic).items())
        }

    def locks(self) -> list[tuple[str, str, Queue, str]]:
        """List what is held: this broker, the name of the lock, the queue, the owner."""
        if self.broker is None:
            return []
        held = self._locks.held(self.clock.wall_ms())
        return [(self.name, name, Queue(key[0], self.name, key[1]), owner) for name, key, owner in held]


def _pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(topic, group) for topic, _, group in (name.partition("@") for name in names)]
