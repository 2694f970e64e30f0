"""Thresholds: from where on something is a finding, each with its reason. Rules have none of their own.

The limits of `steelyard check`, such as ``--lag-warn``, are its caller's.
"""

from datetime import timedelta

STUCK_MS = 60_000
"""How long a queue with waiting messages may make no progress: Java's members commit every 5 s, and few handlers are
meant to take a minute. Java's `mqadmin consumerStatus` has the same limit."""
STUCK_CHECK_MS = 15_000
"""How often a member looks for such queues of its own: a fourth of that, so that it is late by little."""
GROWING_MS = 60_000
"""How far apart the three samples are through which a lag must grow. A shorter rise is a burst."""
GROWING_MESSAGES = 100
"""By how many messages it must grow: below, a slow queue looks like a busy one."""
UNOWNED_MS = 60_000
"""How long a queue may be unowned before its members report that: twice a drain."""
UNMATCHED_MS = 60_000
"""How long a setting may match no member before that is reported: a restarted member is back by then."""
SETTLED_S = 2.0
"""After this a rebalance is over, unless a handler takes longer."""
RECENT = timedelta(days=1)
"""How old the last dead letter of a group may be to be news."""

DISK_WARN, DISK_FULL = 0.75, 0.90
"""Apache's brokers delete messages early from the first on, and reject new ones from the second on."""
CLOCK_WARN_S, CLOCK_FAIL_S = 5.0, 60.0
"""From the first on times of messages confuse people; from the second on delays and resets by time are wrong."""
SLOW_ANSWER_MS = 500
"""How long a broker may take to report its state: a healthy one takes a few milliseconds, and `check send` warns of
round trips from here on."""
OLDEST_TESTED_RELEASE = (4, 9)
MIN_OPEN_FILES = 1_024
"""Files and connections of a process: a broker with a hundred clients and topics comes close."""

UNEVEN_RATIO = 1.25
"""The busiest queue over the mean: what a quarter more work for one member costs is worth a look."""
CHANCE_DEVIATIONS = 4.0
"""Standard deviations beyond which skew is not chance: once in some ten thousand."""
