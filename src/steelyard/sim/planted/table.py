"""Every bug that can be put back, by name."""

from steelyard.errors import ConfigurationError
from steelyard.sim.planted.bug import Bug
from steelyard.sim.planted.member_bugs import MEMBER_BUGS
from steelyard.sim.planted.message_bugs import MESSAGE_BUGS
from steelyard.sim.planted.server_bugs import SERVER_BUGS
from steelyard.sim.planted.store_bugs import STORE_BUGS
from steelyard.sim.planted.taking_bugs import TAKING_BUGS
from steelyard.sim.planted.view_bugs import VIEW_BUGS

__all__ = ["BUGS", "find_bug"]

_ALL: tuple[Bug, ...] = (*STORE_BUGS, *MESSAGE_BUGS, *SERVER_BUGS, *MEMBER_BUGS, *TAKING_BUGS, *VIEW_BUGS)

BUGS: dict[str, Bug] = {bug.name: bug for bug in _ALL}
assert len(BUGS) == len(_ALL), "two bugs have one name"


def find_bug(name: str | None) -> Bug | None:
    """Return the bug of a name; None is no bug.

    >>> find_bug(None)
    >>> find_bug("gremlin")
    Traceback (most recent call last):
        ...
    steelyard.errors.ConfigurationError: no planted bug is called 'gremlin'; `steelyard sim --hunt` lists them
    """
    if name is None:
        return None
    found = BUGS.get(name)
    if found is None:
        raise ConfigurationError(f"no planted bug is called {name!r}", next_step="`steelyard sim --hunt` lists them")
    return found
