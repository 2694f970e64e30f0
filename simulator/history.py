"""One history from its scenario to its outcome: the cluster is built, runs, is healed and comes to rest.

While it runs every fact goes to the checkers. After the last planned event the world is healed; then it has to come to
rest within the time that the protocol promises, and to stay so for a moment. Whether it is at rest only decides when to
stop waiting: all is handled and committed, and every queue has its one owner. Whether that is right is up to the
checkers.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.actors.member import MemberProcess
from simulator.checkers.checker import HistoryEnd
from simulator.checkers.runner import CheckerRunner
from simulator.cluster import SimulatedCluster, committed_offset, log_end_offset, open_transactions, readable_queues
from simulator.coverage import CoverageCounter
from simulator.facts import Fact, HandlerEnded, HandlerStarted, MessageAcked, MessageSent, ProcessStarted
from simulator.faults import FaultScheduler
from simulator.generators import draw_scenario
from simulator.mutants.catalog import find_mutant
from simulator.mutants.mutant import mutated
from simulator.outcome import HistoryOutcome
from simulator.scenario import FaultKind, Scenario, conditions_of, time_to_rest_ms, without_parts
from steelyard.model import Queue

if TYPE_CHECKING:
    from types import TracebackType


class _UnhandledMessages:
    """The messages that each group, or each member of a broadcast group, has still to handle, counted from facts.

    A message counts once its sender knows that it is stored. A successful handler ends it; in an orderly group the last
    failed attempt does, too, because it makes the message a dead letter.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.acked = 0
        self.handled = 0
        self._groups = {group.name: frozenset(group.topics) for group in scenario.groups}
        self._is_broadcast = {group.name: group.mode == "broadcast" for group in scenario.groups}
        self._max_attempts = {group.name: group.max_attempts for group in scenario.groups if group.mode == "orderly"}
        self._attempts: dict[tuple[str, str], int] = {}
        """Attempts of each message by a member of an orderly group."""
        self._topics: dict[str, str] = {}
        self._stored: list[str] = []
        self._readers: dict[str, str] = {name: name for name, is_all in self._is_broadcast.items() if not is_all}
        """Groups, and members of broadcast groups, that have to handle everything, with the group."""
        self._unhandled: dict[str, set[str]] = {name: set() for name in self._readers}
        self._done: dict[str, set[str]] = {name: set() for name in self._readers}

    def observe(self, fact: Fact) -> None:
        """Count a fact."""
        match fact:
            case MessageSent():
                self._topics[fact.uid] = fact.topic
            case MessageAcked():
                self.acked += 1
                self._stored.append(fact.uid)
                for reader in self._readers:
                    self._mark_unhandled(reader, fact.uid)
            case HandlerEnded(ok=True):
                self.handled += 1
                self._mark_handled(fact.member if self._is_broadcast.get(fact.group) else fact.group, fact.uid)
            case HandlerStarted() if fact.group in self._max_attempts:
                self._attempts[fact.member, fact.uid] = fact.attempt + 1
            case HandlerEnded() if self._attempts.get((fact.member, fact.uid), 0) >= self._max_attempts.get(
                fact.group, 1 << 31
            ):
                self._mark_handled(fact.group, fact.uid)
            case ProcessStarted() if self._is_broadcast.get(fact.group) and fact.member not in self._readers:
                self._readers[fact.member] = fact.group
                self._unhandled[fact.member], self._done[fact.member] = set(), set()
                for uid in self._stored:
                    self._mark_unhandled(fact.member, uid)
            case _:
                pass

    def _mark_handled(self, reader: str, uid: str) -> None:
        if reader in self._unhandled:
            self._unhandled[reader].discard(uid)
            self._done[reader].add(uid)

    def _mark_unhandled(self, reader: str, uid: str) -> None:
        if self._topics.get(uid) in self._groups[self._readers[reader]] and uid not in self._done[reader]:
            self._unhandled[reader].add(uid)

    def remaining(self, readers: frozenset[str]) -> set[str]:
        """Return what groups, and the given members of broadcast groups, have still to handle."""
        unhandled = (uids for name, uids in self._unhandled.items() if name in self._groups or name in readers)
        return set().union(*unhandled)


class QuiescenceCheck:
    """Checks whether a healed world is at rest. It is called often, so cheap checks come first."""

    def __init__(self, cluster: SimulatedCluster, unhandled: _UnhandledMessages) -> None:
        self._cluster, self._unhandled = cluster, unhandled
        self._loses_power = any(fault.kind is FaultKind.POWER for fault in cluster.scenario.faults)

    def __call__(self) -> bool:
        """Return whether there is nothing more to wait for."""
        return self.is_sent() and self.is_settled() and self.is_drained()

    def is_sent(self) -> bool:
        """Whether every producer is done, every topic created and every transaction ended."""
        cluster = self._cluster
        if not cluster.admin.is_done or not all(each.is_done for each in cluster.producers.values()):
            return False
        return not any(open_transactions(broker) for broker in cluster.brokers.values())

    def is_settled(self) -> bool:
        """Whether every queue of every group has exactly one owner, and every member has what it planned."""
        return all(self._is_group_settled(group) for group in self._cluster.groups)

    def _is_group_settled(self, group: str) -> bool:
        mode = self._cluster.groups[group].mode
        wanted = self._queues_to_share(group)
        owned: list[Queue] = []
        for member in self._cluster.alive_members(group):
            if isinstance(member, MemberProcess):
                states, assignment = member.member.states(), member.member.plan
                if assignment is None or sorted(states) != sorted(assignment):
                    return False
                if any(state.name != "OWNED" for state in states.values()):
                    return False
                member_queues = list(states)
            else:
                member_queues = list(member.held_queues())
            if mode == "broadcast" and sorted(member_queues) != wanted:
                return False
            owned += member_queues
        return mode == "broadcast" or sorted(owned) == wanted

    def _queues_to_share(self, group: str) -> list[Queue]:
        """Return the queues that the members of a group have to share."""
        shared = self._cluster.groups[group]
        topics = [*shared.topics] if shared.mode == "broadcast" else [*shared.topics, f"%RETRY%{group}"]
        return sorted(queue for topic in topics for queue in readable_queues(self._cluster.brokers.values(), topic))

    def is_drained(self) -> bool:
        """Whether all that is stored was handled and committed."""
        names = frozenset(
            member.name for group in self._cluster.groups for member in self._cluster.alive_members(group)
        )
        remaining = self._unhandled.remaining(names)
        if remaining and not remaining.isdisjoint(self._stored_uids() if self._loses_power else remaining):
            return False
        return all(
            self._is_committed(group.name) for group in self._cluster.groups.values() if group.mode != "broadcast"
        )

    def _stored_uids(self) -> set[str]:
        """Return what brokers still have after power losses: lost messages are not waited for.

        Nor is a message below the committed offset of an async broker: a group that was ahead of what is left does not
        see what is stored next.
        """
        cluster = self._cluster
        stored: set[str] = set()
        skipped: set[str] = set()
        for broker in cluster.brokers.values():
            for logged in broker.logged_messages():
                groups = [group.name for group in cluster.groups.values() if logged.queue.topic in group.topics]
                is_behind = any(logged.offset < committed_offset(broker, group, logged.queue) for group in groups)
                (skipped if is_behind and not cluster.flushes_sync[broker.name] else stored).add(logged.uid)
        return stored - skipped

    def _is_committed(self, group: str) -> bool:
        brokers = self._cluster.brokers
        return all(
            committed_offset(brokers[queue.broker], group, queue) >= log_end_offset(brokers[queue.broker], queue)
            for queue in self._queues_to_share(group)
        )


def _collect_end(cluster: SimulatedCluster, quiescence: QuiescenceCheck, healed_ms: int) -> HistoryEnd:
    """Collect what is left for the checkers."""
    brokers = list(cluster.brokers.values())
    topics = [topic.name for topic in cluster.scenario.topics] + [f"%RETRY%{group}" for group in cluster.groups]
    alive: dict[str, tuple[str, ...]] = {}
    states: dict[str, dict[Queue, str]] = {}
    plans: dict[str, tuple[Queue, ...]] = {}
    for group in cluster.groups:
        members = cluster.alive_members(group)
        alive[group] = tuple(member.name for member in members)
        for member in members:
            if isinstance(member, MemberProcess):
                states[member.name] = {queue: state.name for queue, state in member.member.states().items()}
                plans[member.name] = member.member.plan or ()
            else:
                plans[member.name] = member.assignment
    return HistoryEnd(
        at_ms=cluster.world.now_ms(),
        healed_ms=healed_ms,
        logged=[logged for broker in brokers for logged in broker.logged_messages()],
        committed={key: offset for broker in brokers for key, offset in broker.committed_offsets().items()},
        states=states,
        plans=plans,
        alive=alive,
        locks=[lock for broker in brokers for lock in broker.held_locks()],
        queues={topic: readable_queues(brokers, topic) for topic in topics},
        drained=quiescence.is_sent() and quiescence.is_drained(),
        settled=quiescence.is_settled(),
        added_queues=cluster.added_queues,
    )


_REST_CONFIRM_MS = 1_000
"""How long the world has to stay at rest, because it may only pass through such a state."""


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    """A history with all its facts, for tests that measure."""

    outcome: HistoryOutcome
    facts: tuple[Fact, ...]
    end: HistoryEnd | None
    """None after an error."""


def run_history(
    seed: int,
    only: str | None = None,
    *,
    dropped: Collection[str] = (),
    mutant: str | None = None,
    trace: bool = False,
) -> HistoryOutcome:
    """Run the history of a seed, optionally without some of its parts or with a mutant, and return its outcome.

    With a mutant and without ``only``, its kind is one in which the mutant can show.
    """
    bug = find_mutant(mutant)
    scenario = draw_scenario(seed, bug.kind_of(seed) if bug is not None and only is None else only)
    return run_scenario(without_parts(scenario, dropped), dropped=tuple(dropped), mutant=mutant, trace=trace).outcome


def run_scenario(
    scenario: Scenario, *, dropped: tuple[str, ...] = (), mutant: str | None = None, trace: bool = False
) -> RecordedHistory:
    """Run a scenario, optionally with a mutant, and keep all facts."""
    with mutated(find_mutant(mutant)):
        return _run_recorded(scenario, dropped, trace)


def _run_recorded(scenario: Scenario, dropped: tuple[str, ...], trace: bool) -> RecordedHistory:
    cluster = SimulatedCluster(scenario, trace=trace)
    journal = cluster.world.journal
    checkers, coverage, unhandled = (
        CheckerRunner(conditions_of(scenario)),
        CoverageCounter(),
        _UnhandledMessages(scenario),
    )
    journal.listeners += [checkers.observe, coverage.observe, unhandled.observe]
    end: HistoryEnd | None = None
    error: str | None = None
    try:
        end = _run_to_rest(cluster, unhandled)
        checkers.check_end(end)
        coverage.check_end(end)
    except Exception as raised:  # an error of a core is an outcome, and the next history goes on
        error = _format_error(raised)
    outcome = HistoryOutcome(
        seed=scenario.seed,
        kind=scenario.kind,
        digest=journal.digest(),
        findings=tuple(checkers.findings),
        situations=dict(sorted(coverage.counts.items())),
        counts={
            "messages": unhandled.acked,
            "handlers": unhandled.handled,
            "deliveries": journal.deliveries,
            "simulated ms": cluster.world.now_ms(),
        },
        dropped=dropped,
        error=error,
        trace=tuple(journal.trace_lines or ()),
    )
    return RecordedHistory(outcome, tuple(journal.facts), end)


def _run_to_rest(cluster: SimulatedCluster, unhandled: _UnhandledMessages) -> HistoryEnd:
    world, scenario = cluster.world, cluster.scenario
    faults, quiescence = FaultScheduler(cluster), QuiescenceCheck(cluster, unhandled)
    world.run(scenario.heals_ms)
    faults.heal()
    healed_ms = world.now_ms()
    until_ms = healed_ms + time_to_rest_ms(scenario)
    is_at_rest = False
    while not is_at_rest and world.now_ms() < until_ms:
        world.run(until_ms, quiescence)
        world.run(min(until_ms, world.now_ms() + _REST_CONFIRM_MS))
        is_at_rest = quiescence()
    return _collect_end(cluster, quiescence, healed_ms)


def _format_error(error: BaseException) -> str:
    """Return the frames of an error, then its name and message."""
    lines: list[str] = []
    step: TracebackType | None = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        lines.append(f"  {_short_path(code.co_filename)}:{step.tb_lineno} in {code.co_name}")
        step = step.tb_next
    return "\n".join((*lines, f"{type(error).__name__}: {error}"))


def _short_path(path: str) -> str:
    """Return the path of a file of ours below the checkout: ``simulator/history.py``, ``broker/broker.py``."""
    if "/simulator/" in path:
        return "simulator/" + path.rpartition("/simulator/")[2]
    return path.rpartition("steelyard/")[2]
