"""The version of a table: what tells name servers and replicas that it changed."""

from steelyard.wire.bodies.shared import TableVersion

__all__ = ["next_version"]


def next_version(version: TableVersion | None, now_ms: int) -> TableVersion:
    """Return the version after a change.

    >>> next_version(TableVersion(counter=4, timestamp=1), 9).counter
    5
    """
    counter = 0 if version is None else version.counter
    return TableVersion(counter=counter + 1, state_version=0, timestamp=now_ms)
