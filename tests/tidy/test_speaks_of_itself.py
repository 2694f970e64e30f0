"""The project speaks of itself alone: not of how it came about, nor of where somebody's packages come from.

A reader who clones it finds everything it refers to. Letters in brackets keep this file from meeting its own patterns.
"""

import re
from collections.abc import Iterator

import pytest

from tests.tidy.tree import Source, complain, lines_with, texts

_ELSEWHERE = {
    r"(?<!\bcli/)\b[s]hared/(?!options|output)": "a directory outside the project: copy what is needed into it",
    r"/work/[m]ain\b|/home/[a-z]+/|/tmp/[b]riefs": "a path of one machine: say it from the root of the project",
    r"\b[C]laude\b|\b[C]hatGPT\b|\b[C]opilot\b|\b[A]nthropic\b|\b[O]penAI\b|\b[L]LMs?\b": "a tool: speak of the code",
    r"\b[s]ub-?agents?\b|\b[t]eam-?mates?\b": "who made it: speak of the code",
    r"\b(?:previous|earlier|last|next|later|another|other) (?:[s]ession|[p]rompt)s?\b": "how it was made: leave it out",
    r"\b(?:this|first|next|last|second|later)[ -][s]tone\b": "how it was made: name the release",
    r"\b(?:[i]ssues?|[P]R|pull request|[f]ixes|[c]loses) #\d+": "a number elsewhere: tell the reason itself",
    r"\w/\w+#\d+\b": "a number elsewhere: tell the reason itself",
    r"[p]ypi\.org/simple|[f]iles\.pythonhosted\.org|[r]egistry\.npmjs\.org|[r]epo1?\.maven\.|[i]ndex-url": (
        "a registry's address: that is the reader's setting"
    ),
}


@pytest.mark.parametrize("pattern", _ELSEWHERE, ids=[f"rule-{place}" for place in range(len(_ELSEWHERE))])
def test_the_project_speaks_of_itself_alone(pattern: str) -> None:
    complain(line for source in texts() for line in speaks_of_others(source, pattern))


def test_a_word_about_others_is_seen() -> None:
    for parts in (
        ("see ../sha", "red/notes.md"),
        ("as the other ses", "sion wrote"),
        ("asked Clau", "de"),
        ("the sub", "agent"),
        ("fixes ", "#12"),
        ("apache/rocketmq", "#7812"),
        ("https://pypi", ".org/simple"),
    ):
        assert list(speaks_of_others(Source("README.md", "".join(parts))))
    fine = "a shared lock; a Spark session; the prompt of a shell; color #112233; topic#KEY; section A#1"
    assert not list(speaks_of_others(Source("README.md", fine)))


def speaks_of_others(source: Source, *patterns: str) -> Iterator[str]:
    """Say where a file speaks of something that its reader cannot see."""
    for pattern in patterns or _ELSEWHERE:
        for number, found in lines_with(source, re.compile(pattern, re.IGNORECASE)):
            yield f"{source.path}:{number} says {found[0]!r}, {_ELSEWHERE[pattern]}"
