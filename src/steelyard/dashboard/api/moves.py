"""The history of moves of one group: who took which queue from whom, when and why."""

from msgspec import Struct

from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.group.looking import look_at_group
from steelyard.dashboard.group.records import HistoryRecord
from steelyard.dashboard.routes import reads

__all__ = ["ROUTES", "MovesAnswer"]

_USUALLY, _MOST = 200, 1_000


class MovesAnswer(Struct, frozen=True):
    """The newest records, the oldest of them first."""

    group: str
    is_kept: bool
    """Whether brokers keep it; otherwise the page saw it."""
    records: tuple[HistoryRecord, ...]
    notes: tuple[str, ...]
    command: str


@reads("/api/groups/{group}/moves")
async def _moves(desk: Desk, ask: Ask) -> MovesAnswer:
    group, limit = ask.path("group"), ask.whole("limit", _USUALLY, least=1, most=_MOST)
    history = (await look_at_group(desk, group)).history
    return MovesAnswer(
        group,
        bool(history.is_kept),
        tuple(history.records)[-limit:],
        tuple(history.notes()),
        desk.command("group", "moves", group, "--limit", limit),
    )


ROUTES = (_moves,)
