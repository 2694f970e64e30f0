"""What the answer to a pull means for who reads a range whose end was there once: records, patience, or a loss.

By the protocol's codes: 0 there are records. 20 nothing matched, or the records are being removed; the answer says from
where to go on. 19 and 21 the offset is not one of the queue's now: below what it keeps, or beyond what it has. A
pending reset of the group's offsets is answered by 21 as well, once, for an offset that is fine.

No answer leads back: what does not lead on is asked for again, and whoever asks does so for a limited time.
"""

from typing import NamedTuple

from steelyard.errors import error_for
from steelyard.wire.codes import ResponseCode as Answer
from steelyard.wire.command import Command
from steelyard.wire.headers.pull import PullAnswer

__all__ = ["Again", "Gone", "Missing", "Next", "Pause", "Verdict", "judge"]


class Next(NamedTuple):
    """There are the records that the answer has, maybe none that match; go on from here."""

    offset: int


class Missing(NamedTuple):
    """There is nothing up to here, and never will be again."""

    offset: int
    why: str


class Gone(NamedTuple):
    """There is nothing from here on, unless the broker is just starting."""

    why: str


class Again(NamedTuple):
    """Ask again soon."""

    why: str


class Pause(NamedTuple):
    """The broker wants to be left alone for a while."""

    why: str


Verdict = Next | Missing | Gone | Again | Pause

_NOTHING = frozenset({Answer.PULL_NOT_FOUND, Answer.PULL_RETRY_IMMEDIATELY, Answer.PULL_OFFSET_MOVED})
_PAUSES = frozenset({Answer.SYSTEM_BUSY, Answer.SERVICE_NOT_AVAILABLE, Answer.FLOW_CONTROL, Answer.GO_AWAY})
_NOWHERE = frozenset({Answer.TOPIC_NOT_EXIST, Answer.INVALID_PARAMETER})
_REMOVED = "MESSAGE_WAS_REMOVING"
_CLOSING = "store getMessage return null"
"""What a broker of Apache says while it shuts down."""


def judge(answer: Command, at: int, *, is_filtered: bool, server: str) -> Verdict:
    """Say what an answer means for a reader at an offset; raises ServerError where asking again is of no use."""
    code, remark = answer.code, answer.remark or ""
    if code == Answer.SUCCESS:
        following = answer.header(PullAnswer).next_begin_offset
        if not (answer.body or is_filtered):
            return Again(f"it says to have messages up to {following} and sends none")
        return Next(following) if following > at else Again(f"it says to go on at {following} behind {at}")
    if code in _NOTHING:
        return _nothing(code, answer.header(PullAnswer), at, is_filtered and remark != _REMOVED)
    if code in _PAUSES or (code == Answer.SYSTEM_ERROR and _CLOSING in remark):
        return Pause(error_for(code, remark, server=server).what)
    # 4.9 has no code of its own for a queue that a topic does not have.
    if code in _NOWHERE or (code == Answer.SYSTEM_ERROR and "queueId" in remark and "illegal" in remark):
        return Gone(error_for(code, remark, server=server).what)
    raise error_for(code, remark, server=server)


def _nothing(code: int, header: PullAnswer, at: int, is_filtered: bool) -> Verdict:
    following, low, high = header.next_begin_offset, header.min_offset, header.max_offset
    if code == Answer.PULL_RETRY_IMMEDIATELY and following > at:
        return Next(following) if is_filtered else Missing(following, "the broker has removed or damaged their records")
    if code == Answer.PULL_OFFSET_MOVED and low > at:
        return Missing(low, f"the broker keeps messages from offset {low} on")
    if high <= at:
        return Gone(f"the queue ends at {high}; the topic was made anew, or the broker lost its last messages")
    if code == Answer.PULL_NOT_FOUND and following > at:
        return Missing(following, "the broker has lost a part of the queue's index")
    return Again(f"it has messages up to offset {high} and gives none")
