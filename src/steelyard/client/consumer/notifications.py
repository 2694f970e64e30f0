"""Notifications: rebalances and warnings of a member, logged and passed to the user's callbacks.

Changes of one moment are one `Rebalanced`. A repeated warning is passed on at most once a minute, with how often it
occurred; a lasting one once while it lasts. A callback that raises is logged, and the client continues. Callbacks of
blocking clients run one after the other in a thread that starts with the first.
"""

import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, structs

from steelyard.balance.group.actions import MemberReport
from steelyard.client.namespace import ClientNamespace
from steelyard.client.process_guard import AsyncClient
from steelyard.diagnostics.group import ActiveFindings
from steelyard.model import Queue, sort_queues
from steelyard.model.finding import Finding
from steelyard.model.reserved_names import RETRY_PREFIX

if TYPE_CHECKING:
    from steelyard.client.session import Session

_REPEAT_MS = 60_000
_OWNERSHIP_KINDS = frozenset({"taken", "released", "lost"})
_RECOVERED_KINDS = frozenset({"restored"})

_log = logging.getLogger("steelyard.client")


def is_retry_queue(queue: Queue) -> bool:
    """Say whether a queue is one of the retry topic."""
    return queue.topic.startswith(RETRY_PREFIX)


class Rebalanced(Struct, frozen=True):
    """What one rebalance changed for this member."""

    at_ms: int
    """When, in epoch milliseconds."""
    id: str
    """The client id of the member."""
    taken: tuple[Queue, ...]
    released: tuple[Queue, ...]
    """Released in order: finished, committed, and free for others."""
    lost: tuple[Queue, ...]
    """Revoked without that: what was being handled may be handled again elsewhere."""
    queues: tuple[Queue, ...]
    """All queues that it owns now."""
    why: str

    def __str__(self) -> str:
        parts = [("took", self.taken), ("released", self.released), ("lost", self.lost)]
        changes = "; ".join(f"{verb} {', '.join(map(str, queues))}" for verb, queues in parts if queues)
        return f"{self.id} {changes}; has {len(self.queues)} now ({self.why})"


class Notifications:
    """Takes the reports of one member; on the loop."""

    def __init__(
        self,
        group: str,
        namespace: ClientNamespace,
        on_rebalance: Callable[[Rebalanced], None],
        on_warning: Callable[[Finding], None],
    ) -> None:
        self._group, self._namespace = group, namespace
        self._on_rebalance, self._on_warning = on_rebalance, on_warning
        self._changes: dict[str, list[Queue]] = {}
        self._reasons: dict[str, None] = {}
        self._last_warnings: dict[str, tuple[int, int]] = {}
        """When each was passed on, and how often it has been held back since."""
        self._once = ActiveFindings()
        self._degraded: dict[str, Finding] = {}

    @property
    def has_changes(self) -> bool:
        """Whether queues were taken or released since the last `rebalanced`."""
        return bool(self._changes)

    def report(self, report: MemberReport, now_ms: int) -> None:
        """Take a report of the member."""
        report = structs.replace(report, sentence=self._namespace.unwrap_text(report.sentence))
        if report.kind in _OWNERSHIP_KINDS:
            # Retry queues belong to the group itself, not to the user.
            queues = [self._namespace.unwrap_queue(queue) for queue in report.queues if not is_retry_queue(queue)]
            if not queues:
                return
            self._changes.setdefault(report.kind, []).extend(queues)
            if report.kind == "lost":
                self._reasons[report.sentence.partition(":")[0]] = None
        elif report.kind in _RECOVERED_KINDS:
            self._degraded.clear()
            _log.info("%s", report.sentence)
        elif report.kind == "warning":
            found = report.finding or Finding(report.kind, report.sentence)
            unwrap = self._namespace.unwrap_text
            self._warn(structs.replace(found, message=unwrap(found.message), next_step=unwrap(found.next_step)))
        else:
            if report.kind == "degraded":
                self._degraded[report.sentence] = Finding(report.kind, report.sentence)
            # Unreadable messages are reported for each queue. Otherwise queues and numbers change, and the subject is
            # what stands before the colon.
            subject: object = report.queues if report.kind == "unreadable" else report.sentence.partition(":")[0]
            self._warn_limited(Finding(report.kind, report.sentence), f"{report.kind}:{subject}", now_ms)

    def update_findings(self, found: list[Finding]) -> None:
        """Set the current findings; new ones are passed on."""
        for finding in self._once.update(found):
            self._warn(finding)

    def findings(self) -> tuple[Finding, ...]:
        """Return lasting findings, besides the member's own."""
        return (*self._degraded.values(), *self._once.active)

    def rebalanced(self, at_ms: int, member: str, queues: tuple[Queue, ...], plan: str) -> None:
        """Pass on what changed since the last time."""
        changes, self._changes = self._changes, {}
        reasons, self._reasons = self._reasons, {}
        taken, released, lost = (tuple(sort_queues(changes.get(kind, ()))) for kind in ("taken", "released", "lost"))
        event = Rebalanced(at_ms, member, taken, released, lost, queues, "; ".join(reasons) or plan)
        (_log.warning if lost else _log.info)("group %s: %s", self._group, event)
        self._on_rebalance(event)

    def _warn_limited(self, finding: Finding, about: str, now_ms: int) -> None:
        last_ms, suppressed = self._last_warnings.get(about, (now_ms - _REPEAT_MS, 0))
        if now_ms - last_ms < _REPEAT_MS:
            self._last_warnings[about] = last_ms, suppressed + 1
            return
        self._last_warnings[about] = now_ms, 0
        if suppressed:
            message = f"{finding.message} (and {suppressed} more times in the last minute)"
            finding = structs.replace(finding, message=message)
        self._warn(finding)

    def _warn(self, finding: Finding) -> None:
        _log.warning("%s", finding)
        self._on_warning(finding)


E = TypeVar("E")
M = TypeVar("M", bound=Callable[[Rebalanced], object])
W = TypeVar("W", bound=Callable[[Finding], object])


class NotifyingClient(AsyncClient):
    """A client of a group, with callbacks for rebalances and warnings."""

    _session: "Session"

    def __init__(self, owner: str) -> None:
        super().__init__()
        self._owner = owner
        self._on_rebalance: list[Callable[[Rebalanced], object]] = []
        self._on_warning: list[Callable[[Finding], object]] = []

    @property
    def id(self) -> str:
        """The client id that brokers and other members know it by."""
        return self._session.client_id

    def on_rebalance(self, function: M) -> M:
        """Call a function after each rebalance, with a `Rebalanced`."""
        self._on_rebalance.append(function)
        return function

    def on_warning(self, function: W) -> W:
        """Call a function when something looks wrong, with a `Finding`."""
        self._on_warning.append(function)
        return function

    def _rebalanced(self, event: Rebalanced) -> None:
        notify_all(self._on_rebalance, event, self._owner, self._session.spawn)

    def _warn(self, finding: Finding) -> None:
        notify_all(self._on_warning, finding, self._owner, self._session.spawn)


def notify_all(
    callbacks: Sequence[Callable[[E], object]],
    event: E,
    owner: str,
    spawn: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    """Call each function with an event; the coroutine of an ``async def`` one goes to ``spawn``.

    >>> notify_all([print], "orders@broker-a:0 came", "the consumer", spawn=lambda work: None)
    orders@broker-a:0 came
    """
    for function in callbacks:
        try:
            result = function(event)
        except Exception:
            _log.exception("a callback of %s failed", owner)
            continue
        if inspect.iscoroutine(result):
            spawn(result)


_CLOSE_TIMEOUT_S = 1.0


class CallbackThread:
    """One thread for the callbacks of a blocking client."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def wrap(self, function: Callable[[E], object]) -> Callable[[E], object]:
        """Return a function that calls another one here; an ``async def`` one is for the loop, and stays as it is."""
        return function if inspect.iscoroutinefunction(function) else partial(self.call, function)

    def call(self, function: Callable[[E], object], event: E) -> None:
        """Call a function in the thread; does nothing once closed."""
        if self._is_closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="steelyard-callbacks", daemon=True)
            self._thread.start()
        self._calls.put(lambda: function(event))

    def close(self) -> None:
        """Run the waiting callbacks, for a moment, and end."""
        self._is_closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.put(None)
            if thread is not threading.current_thread():
                thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except BaseException:
                # Also SystemExit, which would end only this thread.
                _log.exception("a callback failed")
