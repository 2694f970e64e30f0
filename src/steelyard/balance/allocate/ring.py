"""CONSISTENT_HASH: members stand on a ring at hashed points, and a queue belongs to the next point clockwise.

Bit for bit Java's ring: a member stands at the hashes of ``id-0`` … ``id-9``, a hash is the first four bytes of MD5,
and a queue's key is the text that Java prints for it. Where two points fall together the member added later wins. An id
listed again goes on counting at the number of points it holds by then.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5
from typing import ClassVar

from steelyard.balance.allocate.by_place import place_of, places
from steelyard.balance.allocate.strategy import Plan
from steelyard.errors import ConfigurationError
from steelyard.model import Queue

__all__ = ["Ring", "md5_point"]


def md5_point(key: str) -> int:
    """Return the point of a key: the first four bytes of its MD5, big end first.

    >>> md5_point("192.168.0.1@100#1-0")
    2831631468
    """
    return int.from_bytes(md5(_utf8(key), usedforsecurity=False).digest()[:4], "big")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Java pairs surrogates where it can and writes "?" for one that is alone.
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass").encode(errors="replace")


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring of so many virtual nodes a member, with MD5 or a hash of your own. Without nodes nobody gets anything.

    >>> queues = [Queue("TopicTest", "broker-a", number) for number in range(4)]
    >>> ids = ["192.168.0.1@100#1", "192.168.0.1@101#2", "192.168.0.2@100#3"]
    >>> [[queue.queue_id for queue in Ring()("billing", member, queues, ids)] for member in ids]
    [[0], [2, 3], [1]]
    """

    virtual_nodes: int = 10
    point: Callable[[str], int] = md5_point

    name: ClassVar[str] = "CONSISTENT_HASH"

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise ConfigurationError(
                f"virtual_nodes is {self.virtual_nodes}", next_step="give 0 or more; 10 is what Java takes"
            )

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        if place_of(group, member, queues, members) is None:
            return []
        return [queue for queue, owner in self._owners(queues, members) if owner == member]

    def share(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> Plan:
        """Return the plan of the whole group; every key is hashed once."""
        whole: Plan = {member: [] for member in places(group, queues, members)}
        for queue, owner in self._owners(queues, members):
            whole[owner].append(queue)
        return whole

    def _owners(self, queues: Sequence[Queue], members: Sequence[str]) -> Iterator[tuple[Queue, str]]:
        # A hash of your own need not be hashable itself, so its rings are not kept.
        make = _kept if self.point is md5_point else _made
        points, owners = make(tuple(members), self.virtual_nodes, self.point)
        if not points:
            return
        for queue in queues:
            topic, broker, number = queue
            key = f"MessageQueue [topic={topic}, brokerName={broker}, queueId={number}]"
            yield queue, owners[bisect_left(points, self.point(key))]


def _made(members: Sequence[str], nodes: int, hashed: Callable[[str], int]) -> tuple[list[int], list[str]]:
    """Return the points in order, and whose each is; behind the last one it begins again."""
    ring: dict[int, str] = {}
    held: Counter[str] = Counter()
    for member in members:
        start = held[member]
        for number in range(start, start + nodes):
            point = hashed(f"{member}-{number}")
            if point in ring:
                held[ring[point]] -= 1
            ring[point] = member
            held[member] += 1
    points = sorted(ring)
    owners = [ring[point] for point in points]
    return points, owners + owners[:1]


# The same members share topic after topic, round after round.
_kept = lru_cache(maxsize=8)(_made)
