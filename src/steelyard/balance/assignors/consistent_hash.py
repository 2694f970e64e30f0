"""CONSISTENT_HASH: members have hashed points on a ring, and a queue belongs to the next point clockwise.

Bit for bit Java's ring: the points of a member are the hashes of ``id-0`` … ``id-9``, a hash is the first four bytes of
MD5, and the key of a queue is the text that Java prints for it. If two points are equal, the member added later wins. A
repeated id goes on counting at the number of points it has by then.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5
from typing import ClassVar

from steelyard.balance.assignors.strategy import AssignmentPlan, member_index, member_indexes
from steelyard.errors import ConfigurationError
from steelyard.model import Queue


def md5_hash(key: str) -> int:
    """Return the point of a key: the first four bytes of its MD5, big end first.

    >>> md5_hash("192.168.0.1@100#1-0")
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
class ConsistentHash:
    """A ring with this many virtual nodes per member, by MD5 or another hash. Without nodes no member gets a queue.

    >>> queues = [Queue("TopicTest", "broker-a", number) for number in range(4)]
    >>> ids = ["192.168.0.1@100#1", "192.168.0.1@101#2", "192.168.0.2@100#3"]
    >>> [[queue.queue_id for queue in ConsistentHash()("billing", member, queues, ids)] for member in ids]
    [[0], [2, 3], [1]]
    """

    virtual_nodes: int = 10
    hash_function: Callable[[str], int] = md5_hash

    name: ClassVar[str] = "CONSISTENT_HASH"

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise ConfigurationError(f"virtual_nodes is {self.virtual_nodes}", next_step="give 0 or more; Java has 10")

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        if member_index(group, member, queues, members) is None:
            return []
        return [queue for queue, owner in self._owners(queues, members) if owner == member]

    def plan_group(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> AssignmentPlan:
        """Return the plan of the whole group; every key is hashed once."""
        whole: AssignmentPlan = {member: [] for member in member_indexes(group, queues, members)}
        for queue, owner in self._owners(queues, members):
            whole[owner].append(queue)
        return whole

    def _owners(self, queues: Sequence[Queue], members: Sequence[str]) -> Iterator[tuple[Queue, str]]:
        # A user's hash function need not be hashable itself, so its rings are not cached.
        make = _cached_ring if self.hash_function is md5_hash else _make_ring
        points, owners = make(tuple(members), self.virtual_nodes, self.hash_function)
        if not points:
            return
        for queue in queues:
            topic, broker, number = queue
            key = f"MessageQueue [topic={topic}, brokerName={broker}, queueId={number}]"
            yield queue, owners[bisect_left(points, self.hash_function(key))]


def _make_ring(members: Sequence[str], nodes: int, hash_function: Callable[[str], int]) -> tuple[list[int], list[str]]:
    """Return the points in order, and the member of each; after the last one it starts again."""
    ring: dict[int, str] = {}
    held: Counter[str] = Counter()
    for member in members:
        start = held[member]
        for number in range(start, start + nodes):
            point = hash_function(f"{member}-{number}")
            if point in ring:
                held[ring[point]] -= 1
            ring[point] = member
            held[member] += 1
    points = sorted(ring)
    owners = [ring[point] for point in points]
    return points, owners + owners[:1]


# The same members share topic after topic, rebalance after rebalance.
_cached_ring = lru_cache(maxsize=8)(_make_ring)
