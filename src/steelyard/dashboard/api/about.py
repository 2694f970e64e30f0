"""What every page needs to know: which cluster this is, and what the page may do."""

from msgspec import Struct

from steelyard.dashboard.asking import Ask
from steelyard.dashboard.desk import Desk
from steelyard.dashboard.routes import reads
from steelyard.version import __version__

__all__ = ["ROUTES", "About"]


class About(Struct, frozen=True):
    """The frame of the page."""

    version: str
    namesrv: str
    namespace: str
    read_only: bool


@reads("/api/about")
async def _about(desk: Desk, ask: Ask) -> About:
    del ask
    return About(__version__, str(desk.connect), desk.connect.namespace, desk.options.read_only)


ROUTES = (_about,)
