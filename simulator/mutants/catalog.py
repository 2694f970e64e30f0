"""All mutants, by name."""

from simulator.mutants.broker_mutants import MESSAGE_MUTANTS, REGISTRY_MUTANTS, STORE_MUTANTS
from simulator.mutants.member_mutants import MEMBER_MUTANTS, QUEUE_LOCK_MUTANTS
from simulator.mutants.mutant import Mutant
from simulator.mutants.rebalance_mutants import REBALANCE_MUTANTS
from steelyard.errors import ConfigurationError

_ALL_MUTANTS: tuple[Mutant, ...] = (
    *STORE_MUTANTS,
    *MESSAGE_MUTANTS,
    *REGISTRY_MUTANTS,
    *MEMBER_MUTANTS,
    *QUEUE_LOCK_MUTANTS,
    *REBALANCE_MUTANTS,
)

MUTANTS: dict[str, Mutant] = {mutant.name: mutant for mutant in _ALL_MUTANTS}
assert len(MUTANTS) == len(_ALL_MUTANTS), "two mutants have one name"


def find_mutant(name: str | None) -> Mutant | None:
    """Return the mutant of a name; None for None.

    >>> find_mutant(None)
    >>> find_mutant("gremlin")
    Traceback (most recent call last):
        ...
    steelyard.errors.ConfigurationError: no planted bug is called 'gremlin'; `python -m simulator --hunt` lists them
    """
    if name is None:
        return None
    found = MUTANTS.get(name)
    if found is None:
        raise ConfigurationError(
            f"no planted bug is called {name!r}", next_step="`python -m simulator --hunt` lists them"
        )
    return found
