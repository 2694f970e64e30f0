"""What one request may cost a server's loop, which all clients share: the worst of each kind, and of each code.

tests/broker/worst_requests.py says how that is measured, and why beside a plain loop.
"""

from collections.abc import Callable, Iterator
from functools import partial

from bench.table import Row
from tests.broker.worst_requests import MOST_LOOPS, broker_work, measured, name_server_work, refused, taken
from tests.broker.worst_states import worst_of_broker, worst_of_name_server


def run() -> Iterator[Row]:
    """Measure everything; takes half a minute."""
    for verb, requests in (("taken", taken()), ("refused", refused())):
        for what, make in requests.items():
            yield _row(f"{what}, {verb}", partial(broker_work, make))
    for what, case in worst_of_broker().items():
        yield _row(f"{what}, full broker", case.work)
    for what, worst in worst_of_name_server().items():
        yield _row(f"{what}, full name server", worst.work)
    for topics, verb in ((20_000, "taken"), (80_000, "refused")):
        yield _row(f"a registration of {topics:,} topics, {verb}", partial(name_server_work, topics))


def _row(what: str, make: Callable[[], Callable[[], object]]) -> Row:
    ours, loop = map(min, zip(*measured(make), strict=True))
    beside, met = f"a loop of a million: {loop:.1f} ms", ours < MOST_LOOPS * loop
    return Row(what, f"{ours:.1f} ms", beside, f"{loop / ours:.2f}x", f"< {MOST_LOOPS:g} loops", met)
