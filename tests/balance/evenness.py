"""What even and least mean, said in the plainest way: the yardstick of the tests, slow and independent of the rules."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise, product

from hypothesis import strategies as st

from steelyard.model import Queue


def queues_of(*sizes: int, broker: str = "broker-a") -> list[Queue]:
    """Make topics t0, t1 … of these sizes."""
    return [Queue(f"t{topic}", broker, number) for topic, size in enumerate(sizes) for number in range(size)]


def moves(before: Iterable[int], now: Iterable[int]) -> int:
    """Count the queues that one member had before and another has now."""
    return sum(was >= 0 and was != new for was, new in zip(before, now, strict=True))


def spread(counts: Iterable[int]) -> int:
    """Return the most minus the fewest."""
    each = list(counts)
    return max(each) - min(each) if each else 0


def even_in_topics(cut: Sequence[int], subs: Sequence[Sequence[int]], plan: Sequence[int]) -> bool:
    """Say whether in each topic its subscribers, and no others, have all queues and differ by one at most."""
    for (start, end), takers in zip(pairwise(cut), subs, strict=True):
        counts = Counter(plan[start:end])
        if takers and (spread(counts[member] for member in takers) > 1 or not counts.keys() <= set(takers)):
            return False
        if not takers and counts.keys() - {-1}:
            return False
    return True


def even(cut: Sequence[int], members: int, plan: Sequence[int]) -> bool:
    """Say whether members differ by one queue at most in each topic and over all."""
    counts = Counter(plan)
    everybody = range(members)
    return spread(counts[member] for member in everybody) <= 1 and even_in_topics(
        cut, [everybody] * (len(cut) - 1), plan
    )


def least_by_trying_everything(cut: Sequence[int], members: int, owner: Sequence[int]) -> int:
    """Try every plan there is and return the fewest moves of an even one."""
    plans = product(range(members), repeat=len(owner))
    return min(moves(owner, plan) for plan in plans if even(cut, members, plan))


@st.composite
def groups(draw: st.DrawFn, *, topics: int = 3, queues: int = 40, members: int = 9) -> tuple[list[int], int, list[int]]:
    """Draw topics, members and owners; an owner may be none (-1) or have left (the number after the last member)."""
    sizes = draw(st.lists(st.integers(0, queues // topics), min_size=1, max_size=topics))
    count = draw(st.integers(1, members))
    cut = list(accumulate(sizes, initial=0))
    owner = draw(st.lists(st.integers(-1, count), min_size=cut[-1], max_size=cut[-1]))
    return cut, count, owner
