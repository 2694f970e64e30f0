"""Looking at a group without mistaking a hand-over for a trouble.

While a queue goes from one member to another nobody has it for a moment, or two say that they do. That is wrong only if
it lasts, so whoever sees it looks once more before it is told.
"""

import asyncio
from dataclasses import replace

from steelyard.balance.hazards import Hazard
from steelyard.client.admin import Admin
from steelyard.client.admin.group_view import GroupView

__all__ = ["look_at_group", "passes"]

_SETTLED_S = 2.0
"""After so long a hand-over is over, unless a handler takes longer."""
_PASSING = ("unowned queues", "claimed twice")


def passes(hazard: Hazard) -> bool:
    """Say whether something may be over in a moment."""
    return hazard.kind.startswith(_PASSING)


async def look_at_group(
    admin: Admin, name: str, earlier: GroupView | None = None, *, is_known: bool = False, settled_s: float = _SETTLED_S
) -> GroupView:
    """Look at a group; what passes with a hand-over is in the view only if it is still there a moment later."""
    view = await admin.group(name, earlier, is_known=is_known)
    if not any(map(passes, view.hazards)):
        return view
    await asyncio.sleep(settled_s)
    again = await admin.group(name, view, is_known=True)
    return replace(again, hazards=tuple(each for each in again.hazards if not passes(each) or each in view.hazards))
