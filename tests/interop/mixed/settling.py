"""A group of reporting members on two brokers: what is done to it, and how long until their reports have settled.

Settled means that every member holds exactly what the group's strategy gives it, by its own report, and that nothing
changes any more for a while. A change is timed from the moment in which somebody was told or killed; each member's time
is that of its last report. A member that had nothing to change has none.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.interop.mixed.our_member_strategy import strategy_of
from tests.interop.mixed.pairs import Pair
from tests.interop.mixed.reporting import Held, ReportingMember, Troupe

from steelyard.balance.allocate.strategy import share
from steelyard.model import Queue, in_order, names_in_order

__all__ = ["Change", "Party"]
