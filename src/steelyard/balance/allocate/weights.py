"""Shares by weight: a member of weight 2 gets twice as many queues as one of weight 1.

In each topic everybody gets the whole part of its exact share, and the queues left over go one each to those with the
largest remainder. Remainders are carried from topic to topic: without that, a hundred topics of one queue would all go
to the heaviest member.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import isfinite, lcm

from steelyard.errors import ConfigurationError

__all__ = ["weighted_shares", "whole_weights"]


def whole_weights(weights: Mapping[str, float], members: Sequence[str]) -> list[int]:
    """Return the members' weights as whole numbers in the same proportion; a member not mentioned weighs 1.

    >>> whole_weights({"big": 2.5}, ["big", "small"])
    [5, 2]
    """
    exact: list[Fraction] = []
    for member in members:
        weight = weights.get(member, 1)
        if not isfinite(weight) or weight < 0:
            raise ConfigurationError(f"member {member!r} weighs {weight}", next_step="give a number of 0 or more")
        exact.append(Fraction(weight))
    if not any(exact):
        raise ConfigurationError("every member weighs 0", next_step="give one of them a weight above 0")
    scale = lcm(*(weight.denominator for weight in exact))
    return [int(weight * scale) for weight in exact]


def weighted_shares(cut: Sequence[int], weights: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each topic how many of its queues each member gets.

    >>> list(weighted_shares([0, 4, 5, 6], weights=[2, 1, 1]))
    [[2, 1, 1], [1, 0, 0], [0, 1, 0]]
    """
    total = sum(weights)
    carried = [0] * len(weights)
    takers = [member for member, weight in enumerate(weights) if weight]
    for start, end in pairwise(cut):
        exact = [weight * (end - start) for weight in weights]
        share = [part // total for part in exact]
        carried = [before + part % total for before, part in zip(carried, exact, strict=True)]
        extras = end - start - sum(share)
        for member in sorted(takers, key=carried.__getitem__, reverse=True)[:extras]:
            share[member] += 1
            carried[member] -= total
        yield share
