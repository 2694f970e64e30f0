"""A pull by who is a member of nothing: 11, with the subscription in the request, so that no heartbeat is needed.

Flags: 2 the pull may be held, 4 the subscription is in here. A broker makes the group if it may (26 if not), and keeps
no word of who reads. It compares hashes of tags only; whoever reads the answer looks at the tag (pulling.py). An Apache
broker that may not filter by properties refuses SQL92 (1), and one that may does not refuse a condition that it cannot
read: it returns everything. So the condition of a reader is checked before (46) where that matters.
"""

from steelyard.balance.actions import Pull
from steelyard.model import Subscription
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers import pull as about_pulls

__all__ = ["HOLD_MS", "read_request"]

HOLD_MS = 15_000
"""How long a broker may keep the answer until there is something."""

_MAY_BE_HELD, _BRINGS_FILTER = 2, 4


def read_request(group: str, pull: Pull, wanted: Subscription) -> Command:
    """Return the request of a pull.

    >>> from steelyard.model import Queue
    >>> asked = read_request("report", Pull(Queue("orders", "broker-a", 3), 1, 40), Subscription("orders", "paid"))
    >>> asked.code, asked.texts()["subscription"], asked.texts()["sysFlag"]
    (<RequestCode.PULL_MESSAGE: 11>, 'paid', '6')
    """
    topic, _, queue_id = pull.queue
    flags = _BRINGS_FILTER | (_MAY_BE_HELD if pull.may_wait else 0)
    header = about_pulls.Pull(
        group,
        topic,
        queue_id,
        pull.offset,
        pull.most,
        flags,
        0,
        HOLD_MS,
        0,
        wanted.expression,
        wanted.kind.value,
    )
    return Command(RequestCode.PULL_MESSAGE, header)
