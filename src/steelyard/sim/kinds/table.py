"""Which kinds of histories there are, and which seed is of which kind.

A seed alone says everything: its kind is its place on the wheel below, unless one kind is asked for.
"""

from collections.abc import Callable

from steelyard.errors import ConfigurationError
from steelyard.sim.kinds.draft import Draft
from steelyard.sim.kinds.handovers import flips, late, patience
from steelyard.sim.kinds.lines import clock, network
from steelyard.sim.kinds.membership import churn, crash, hung, storm
from steelyard.sim.kinds.servers import disk, power, restart, routes
from steelyard.sim.kinds.ways import broadcast, mixed, order, retry, transaction, wild
from steelyard.sim.plan import Plan

__all__ = ["KINDS", "draw", "kind_of"]

KINDS: dict[str, Callable[[Draft], None]] = {
    "churn": churn,
    "crash": crash,
    "hung": hung,
    "mixed": mixed,
    "disk": disk,
    "power": power,
    "restart": restart,
    "network": network,
    "clock": clock,
    "order": order,
    "broadcast": broadcast,
    "retry": retry,
    "transaction": transaction,
    "storm": storm,
    "routes": routes,
    "wild": wild,
    "flips": flips,
    "late": late,
    "patience": patience,
}
"""What draws each kind."""

_WHEEL = tuple(KINDS)


def kind_of(seed: int) -> str:
    """Return the kind of a history by its seed alone.

    >>> kind_of(0), kind_of(1)
    ('churn', 'crash')
    """
    return _WHEEL[seed % len(_WHEEL)]


def draw(seed: int, only: str | None = None) -> Plan:
    """Draw the plan of a history; ``only`` makes it of that kind, whatever the seed."""
    kind = kind_of(seed) if only is None else only
    drawing = KINDS.get(kind)
    if drawing is None:
        raise ConfigurationError(
            f"no kind of history is called {kind!r}", next_step=f"the kinds are {', '.join(KINDS)}"
        )
    draft = Draft(kind, seed)
    drawing(draft)
    return draft.done()
