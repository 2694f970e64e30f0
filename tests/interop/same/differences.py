"""What differs between two answers, and whether that is meant.

A difference has a label: ``code 0→23``; ``-ext.offset`` for what only the other server says, ``+ext.offset`` for what
only ours says, ``ext.offset`` where both say something else. With another code all of the answer is another one, and
nothing more of it is compared.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.interop.same.answer_views import REMARK, View

_NOT_COMPARED = frozenset({REMARK})


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of one answer in which two servers differ."""

    step: str
    label: str
    theirs: object
    ours: object

    def __str__(self) -> str:
        return f"{self.step}: {self.label}: theirs {self.theirs!r}, ours {self.ours!r}"


@dataclass(frozen=True, slots=True)
class Intended:
    """Differences that are meant: in these steps these labels (``|`` between them, ``*`` for anything), and why."""

    steps: str
    labels: str
    why: str

    def covers(self, difference: Difference) -> bool:
        """Whether a difference is one of these."""
        return _fits(self.steps, difference.step) and _fits(self.labels, difference.label)


def _fits(patterns: str, text: str) -> bool:
    return any(re.fullmatch(re.escape(each).replace(r"\*", ".*"), text) for each in patterns.split("|"))


def differences(step: str, theirs: View, ours: View) -> list[Difference]:
    """Return in what two answers to one step differ."""
    if theirs["code"] != ours["code"]:
        label = f"code {theirs['code']}→{ours['code']}"
        return [Difference(step, label, theirs.get(REMARK), ours.get(REMARK))]
    found = []
    for path in sorted((theirs.keys() | ours.keys()) - _NOT_COMPARED):
        if path not in ours:
            found.append(Difference(step, f"-{path}", theirs[path], None))
        elif path not in theirs:
            found.append(Difference(step, f"+{path}", None, ours[path]))
        elif theirs[path] != ours[path]:
            found.append(Difference(step, path, theirs[path], ours[path]))
    return found


def unexplained(found: Iterable[Difference], intended: Iterable[Intended]) -> list[Difference]:
    """Return the differences that nobody meant."""
    rows = tuple(intended)
    return [each for each in found if not any(row.covers(each) for row in rows)]


def unused(found: Iterable[Difference], intended: Iterable[Intended]) -> list[str]:
    """Return what rows name, step or label, and explains nothing any more."""
    seen = tuple(found)
    left = []
    for row in intended:
        explained = [each for each in seen if row.covers(each)]
        left += [step for step in row.steps.split("|") if not any(_fits(step, each.step) for each in explained)]
        left += [label for label in row.labels.split("|") if not any(_fits(label, each.label) for each in explained)]
    return left


def all_differences(
    theirs: Mapping[str, Mapping[str, View]], ours: Mapping[str, Mapping[str, View]]
) -> list[Difference]:
    """Return in what the answers to all scripts differ."""
    return [
        difference
        for script, answers in theirs.items()
        for step, answer in answers.items()
        for difference in differences(f"{script}/{step}", answer, ours[script][step])
    ]
