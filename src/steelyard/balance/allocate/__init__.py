"""Who gets which queue: one file per strategy, Java's bit for bit and one of our own.

`plan` makes a group's plan from any of them, `find_strategy` finds one by the name that people write.
"""

from steelyard.balance.allocate.average import Average
from steelyard.balance.allocate.by_config import ByConfig
from steelyard.balance.allocate.circle import Circle
from steelyard.balance.allocate.custom import Custom
from steelyard.balance.allocate.least import least_moves
from steelyard.balance.allocate.machine_room import MachineRoom
from steelyard.balance.allocate.names import BUILT_IN, Registry, find_strategy
from steelyard.balance.allocate.nearby import Nearby, room_before_at
from steelyard.balance.allocate.ring import Ring, md5_point
from steelyard.balance.allocate.settings import Settings, read_settings
from steelyard.balance.allocate.sticky import Sticky, cut_by_topic, owners_before, sticky
from steelyard.balance.allocate.strategy import Owned, Plan, Rule, Strategy, plan

__all__ = [
    "BUILT_IN",
    "Average",
    "ByConfig",
    "Circle",
    "Custom",
    "MachineRoom",
    "Nearby",
    "Owned",
    "Plan",
    "Registry",
    "Ring",
    "Rule",
    "Settings",
    "Sticky",
    "Strategy",
    "cut_by_topic",
    "find_strategy",
    "least_moves",
    "md5_point",
    "owners_before",
    "plan",
    "read_settings",
    "room_before_at",
    "sticky",
]
