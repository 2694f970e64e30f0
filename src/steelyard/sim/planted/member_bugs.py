"""Mistakes in what a member does with messages: its windows, commits, handlers, and what is left when it goes.

Taking queues and giving them up is in `taking_bugs`, whom a member believes to be there in `view_bugs`.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from steelyard.balance.actions import Left, Pull, Unregister
from steelyard.balance.committing import Committing, has_moved
from steelyard.balance.events import Handled, OffsetSeen, Pulled, PullFailed
from steelyard.balance.flow import Flow
from steelyard.balance.handling import Handling
from steelyard.balance.leaving import Leaving
from steelyard.balance.life import Seen, State
from steelyard.balance.lives import Lives
from steelyard.balance.pick import Picker
from steelyard.balance.pulling import Pulling
from steelyard.balance.record import Record
from steelyard.balance.taking import Taking
from steelyard.balance.window import Window
from steelyard.dialect import asking as speech
from steelyard.model import Queue
from steelyard.sim.planted.bug import Bug, swap
from steelyard.wire.headers import pull as about_pulls

__all__ = ["MEMBER_BUGS"]

# What is right, for the wrong ones that go on from there.
_settle, _finish, _send_back = Window._settle, Window.finish, Handling._send_back
_handled_by_stranger, _pull_request, _fence_holds = (
    Handling._handled_by_stranger,
    speech.Asking.pull,
    Taking.fence_holds,
)
_begin, _finish_leaving, _estrange = Flow._begin, Leaving.finish_if_done, Lives.estrange


# -- windows ----------------------------------------------------------------------------------------------------------


def _settle_at_pulled(window: Window) -> None:
    _settle(window)
    window.low = window.next


def _finish_up_to_highest(window: Window, offsets: Iterable[int]) -> None:
    highest = max(offsets, default=-1)
    unfinished = [offset for offset in window._offsets[window._head :] if offset not in window._ahead]
    _finish(window, [offset for offset in unfinished if offset <= highest])


def _see_everything(_window: Window, _offsets: Sequence[int]) -> int:
    return 0


def _take_any_pull(pulling: Pulling, event: Pulled | PullFailed) -> None:
    record = pulling._board.records.get(event.queue)
    if record is None or record.pulling_ms is None:
        return
    record.pulling_ms = None
    pulling._board.see(record, Seen.PULLED if isinstance(event, Pulled) else Seen.PULL_FAILED, event)


def _pull_and_commit(said: speech.Asking, action: Pull) -> speech.Request:
    """Pull, and let the broker store on the way how far the pulls are."""
    request = _pull_request(said, action)
    header = request.fields
    if not isinstance(header, about_pulls.Pull):
        return request
    return request._replace(fields=replace(header, sys_flag=header.sys_flag | 1, commit_offset=action.offset))


# -- commits ----------------------------------------------------------------------------------------------------------


def _commit_at_once(committing: Committing, record: Record) -> None:
    """Commit after every message, whether the last commit was answered or not."""
    if has_moved(record):
        committing.commit(record)


def _believe_stored(flow: Flow, record: Record, about: OffsetSeen, generation: int) -> None:
    """Begin in a queue, and take it that the broker knows where."""
    _begin(flow, record, replace(about, stored=True), generation)


def _go_without_commit(lives: Lives, record: Record, _about: object) -> None:
    lives._release_or_go(record)


def _go_with_commit(lives: Lives, record: Record, _about: object) -> None:
    """Let go together with the last commit, without waiting for its answer."""
    lives.committing.commit(record)
    lives._release_or_go(record)


# -- handlers ---------------------------------------------------------------------------------------------------------


def _count_failure_as_done(
    _handling: Handling, record: Record, offset: int, _message: object, _attempt: int, _level: int
) -> None:
    record.window.finish((offset,))


def _send_back_and_go_on(
    handling: Handling,
    record: Record,
    offset: int,
    message: object,
    attempt: int,
    level: int,
    unreadable: str = "",
) -> None:
    """Count a message as done as soon as it is on its way back."""
    _send_back(handling, record, offset, message, attempt, level, unreadable)
    record.window.finish((offset,))
    record.backs.pop(offset, None)


def _give_back_as_stranger(handling: Handling, event: Handled) -> None:
    """Send back what failed in a handler whose queue is lost."""
    running = handling._strangers.get((event.queue, event.generation), {})
    for offset in event.failed:
        if offset in running:
            chunk = running[offset]
            _send_back(handling, chunk.record, offset, chunk.message(offset), chunk.attempt, event.delay_level)
    _handled_by_stranger(handling, event)


def _skip_in_order(
    _handling: Handling, record: Record, offset: int, _message: object, _attempt: int, _level: int
) -> list[tuple[int, object, int]]:
    record.window.finish((offset,))
    return []


def _try_later_in_order(
    handling: Handling, record: Record, offset: int, message: object, attempt: int, _level: int
) -> list[tuple[int, object, int]]:
    """Try a message again after a while, and go on with those behind it."""
    handling._try_here(record, offset, message, attempt + 1)
    return []


def _can_always_start(_handling: Handling, record: Record) -> bool:
    return record.state is State.OWNED and record.has_messages and not record.is_suspended


def _can_start_in_doubt(handling: Handling, record: Record) -> bool:
    if record.state not in (State.OWNED, State.UNSURE) or not record.has_messages:
        return False
    return not handling._in_order or not (record.running or record.is_suspended)


def _fence_not_in_doubt(taking: Taking, record: Record) -> bool:
    return record.state is State.UNSURE or _fence_holds(taking, record)


def _fence_never(_taking: Taking, _record: Record) -> bool:
    return True


def _commit_what_runs(lives: Lives, record: Record, _about: object) -> None:
    """End a drain that takes too long: what still runs counts as done."""
    record.window.finish(list(record.running))
    _estrange(lives, record, None)


# -- leaving ----------------------------------------------------------------------------------------------------------


def _leave_while_releasing(leaving: Leaving) -> None:
    """Say goodbye as soon as all that is left are unlocks without an answer."""
    board = leaving._board
    if not board.is_leaving or leaving.is_done:
        return
    if all(record.state is State.RELEASING for record in board.records.values()):
        for broker in board.lines.brokers():
            board.say(Unregister(broker))
        board.say(Left())
        leaving.is_done = True


def _leave_while_draining(leaving: Leaving) -> None:
    """Say goodbye first and drain then."""
    board = leaving._board
    if board.is_leaving and not leaving._is_over:
        for broker in board.lines.brokers():
            board.say(Unregister(broker))
        leaving._is_over = True
    _finish_leaving(leaving)


# -- sending ----------------------------------------------------------------------------------------------------------


def _pick_any(picker: Picker, _now_ms: int = 0, failed: Iterable[str] = ()) -> Queue:
    """Go on with the broker that has just failed."""
    again = [queue for queue in picker.queues if queue.broker in failed]
    return again[0] if again else picker._next()


MEMBER_BUGS: tuple[Bug, ...] = (
    Bug(
        "commit-before-handle",
        "A member commits what it has pulled, not what it has handled.",
        ("churn", "crash"),
        (swap(Window, "_settle", _settle_at_pulled),),
    ),
    Bug(
        "window-without-holes",
        "A member commits up to the highest message that was handled, whatever is left below it.",
        ("churn", "crash"),
        (swap(Window, "finish", _finish_up_to_highest),),
    ),
    Bug(
        "pull-carries-commit",
        "Each pull commits the offset from which it pulls.",
        ("churn", "crash"),
        (swap(speech.Asking, "pull", _pull_and_commit),),
    ),
    Bug(
        "pull-of-an-earlier-life",
        "The answer to a pull of an earlier life of a queue counts in this one.",
        ("churn", "storm"),
        (swap(Pulling, "answered", _take_any_pull), swap(Window, "unseen", _see_everything)),
    ),
    Bug(
        "two-commits-under-way",
        "A member commits again before its last commit is answered, and the broker may store them in the other order.",
        ("churn",),
        (swap(Committing, "note_progress", _commit_at_once),),
    ),
    Bug(
        "start-uncommitted",
        "Where a group begins in a queue is not stored until something was handled there.",
        ("late",),
        (swap(Flow, "_begin", _believe_stored),),
    ),
    Bug(
        "let-go-uncommitted",
        "A queue is given up without a last commit.",
        ("churn",),
        (swap(Lives, "finish", _go_without_commit),),
    ),
    Bug(
        "let-go-before-the-answer",
        "A queue is given up while its last commit is unanswered.",
        ("flips", "storm"),
        (swap(Lives, "finish", _go_with_commit),),
    ),
    Bug(
        "failure-counts-as-done",
        "A message that failed is neither given back nor tried again.",
        ("retry",),
        (swap(Handling, "_failed", _count_failure_as_done),),
    ),
    Bug(
        "given-back-unheard",
        "A message counts as given back before the broker says that it has it.",
        ("retry",),
        (swap(Handling, "_send_back", _send_back_and_go_on),),
    ),
    Bug(
        "given-back-after-loss",
        "A message that failed is given back by a member that has lost its queue.",
        ("flips",),
        (swap(Handling, "_handled_by_stranger", _give_back_as_stranger),),
    ),
    Bug(
        "order-skips-failures",
        "In order, a message that failed is passed over.",
        ("order",),
        (swap(Handling, "_failed_in_order", _skip_in_order),),
    ),
    Bug(
        "order-goes-on-past-failures",
        "In order, those behind a message that failed do not wait for it.",
        ("order",),
        (swap(Handling, "_failed_in_order", _try_later_in_order),),
    ),
    Bug(
        "order-by-two-handlers",
        "In order, a queue has several handlers at a time.",
        ("order",),
        (swap(Handling, "_can_start", _can_always_start),),
    ),
    Bug(
        "doubt-starts-handlers",
        "Handlers start while it is in doubt whether the queue is still held.",
        ("flips", "wild"),
        (swap(Handling, "_can_start", _can_start_in_doubt), swap(Taking, "fence_holds", _fence_not_in_doubt)),
    ),
    Bug(
        "fence-ignored",
        "Whoever wakes up goes on with its messages before it has proven that they are still its own.",
        ("hung",),
        (swap(Taking, "fence_holds", _fence_never),),
    ),
    Bug(
        "drain-bound-commits-all",
        "When a drain takes too long, what is still being handled is committed.",
        ("flips",),
        (swap(Lives, "estrange", _commit_what_runs),),
    ),
    Bug(
        "goodbye-before-unlock",
        "A member says goodbye while its last unlocks are unanswered.",
        ("order",),
        (swap(Leaving, "finish_if_done", _leave_while_releasing),),
    ),
    Bug(
        "goodbye-first",
        "A member that leaves says goodbye before it has given up its queues.",
        ("churn",),
        (swap(Leaving, "finish_if_done", _leave_while_draining),),
    ),
    Bug(
        "failed-broker-again",
        "A message that a broker did not take is sent to the same broker again.",
        ("restart",),
        (swap(Picker, "pick", _pick_any),),
    ),
)
"""What can be wrong with messages at a member."""
