"""Assignment strategies (AllocateMessageQueueStrategy): one file per strategy, Java's bit for bit and STICKY.

`plan` makes a group's plan with any of them, `find_strategy` finds one by name.
"""

from steelyard.balance.assignors.average import Average
from steelyard.balance.assignors.by_config import ByConfig
from steelyard.balance.assignors.circle import AverageByCircle
from steelyard.balance.assignors.consistent_hash import ConsistentHash, md5_hash
from steelyard.balance.assignors.machine_room import MachineRoom
from steelyard.balance.assignors.minimum_moves import minimum_moves
from steelyard.balance.assignors.nearby import MachineRoomNearby, room_before_at
from steelyard.balance.assignors.registry import (
    BUILT_IN_STRATEGIES,
    StrategyOptions,
    StrategyRegistry,
    find_strategy,
    read_strategy_options,
)
from steelyard.balance.assignors.sticky import Sticky, previous_owners, sticky_plan, topic_bounds
from steelyard.balance.assignors.strategy import (
    AssignmentPlan,
    CustomStrategy,
    OwnedQueues,
    Strategy,
    StrategyFunction,
    plan,
)

__all__ = [
    "BUILT_IN_STRATEGIES",
    "AssignmentPlan",
    "Average",
    "AverageByCircle",
    "ByConfig",
    "ConsistentHash",
    "CustomStrategy",
    "MachineRoom",
    "MachineRoomNearby",
    "OwnedQueues",
    "Sticky",
    "Strategy",
    "StrategyFunction",
    "StrategyOptions",
    "StrategyRegistry",
    "find_strategy",
    "md5_hash",
    "minimum_moves",
    "plan",
    "previous_owners",
    "read_strategy_options",
    "room_before_at",
    "sticky_plan",
    "topic_bounds",
]
