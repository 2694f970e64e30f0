"""SQL92 conditions, as Apache's brokers parse and judge them."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steelyard.broker.filters import compile_filter
from steelyard.errors import SubscriptionUnreadable
from steelyard.wire.properties import encode_properties
from tests.broker.filters.conditions import NAMES, conditions, messages, written
from tests.interop.jars import SERVER_RELEASES, server_class_path

_PROGRAM = Path(__file__).parent / "java" / "filters" / "Judge.java"
_NEWER_WORDS = ("CONTAINS", "STARTSWITH", "ENDSWITH")

Properties = Mapping[str, str]
Verdict = list[bool] | None
"""Which messages match, or None for a condition that is refused."""


class JavaFilter:
    """A Java process that judges conditions with the classes of one release."""

    def __init__(self, release: str, process: subprocess.Popen[str]) -> None:
        self.knows_searches = release != SERVER_RELEASES[0]
        self._process = process

    def verdict(self, condition: str, asked: Sequence[Properties]) -> Verdict:
        """Ask which messages match a condition."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        sent = (",".join(f"{_hex(name)}={_hex(value)}" for name, value in each.items()) or "," for each in asked)
        self._process.stdin.write(" ".join((_hex(condition), *sent)) + "\n")
        self._process.stdin.flush()
        output = self._process.stdout.readline().strip()
        return None if output == "refused" else [each == "1" for each in output]


@contextmanager
def running(release: str) -> Iterator[JavaFilter]:
    """Start a process for a release; it ends when there is nothing more to read for it."""
    command = [shutil.which("java") or "java", "-Xmx256m", "-cp", server_class_path(release), str(_PROGRAM)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield JavaFilter(release, process)


@pytest.fixture(scope="module")
def java_filters() -> Iterator[dict[str, JavaFilter]]:
    """Start a judge for each release."""
    with ExitStack() as processes:
        yield {release: processes.enter_context(running(release)) for release in SERVER_RELEASES}


@pytest.fixture(scope="module", params=SERVER_RELEASES)
def java_filter(request: pytest.FixtureRequest, java_filters: dict[str, JavaFilter]) -> JavaFilter:
    """Give the judge of one release; a test that takes it runs with each of them."""
    return java_filters[request.param]


def ours(condition: str, asked: Sequence[Properties]) -> Verdict:
    """Judge with our own filter."""
    if reason(condition):
        return None
    matches = compile_filter("SQL92", condition).matches
    assert matches is not None
    return [matches(encode_properties(each)) for each in asked]


def reason(condition: str) -> str:
    """Say why we refuse a condition; nothing if we do not."""
    try:
        compile_filter("SQL92", condition)
    except SubscriptionUnreadable as refusal:
        return refusal.remark
    return ""


def _hex(text: str) -> str:
    return f"x{text.encode().hex()}"


@settings(max_examples=2500)
@given(condition=conditions.map(written), asked=st.lists(messages, min_size=4, max_size=12))
def test_a_condition_matches_the_same_messages(
    java_filter: JavaFilter, condition: str, asked: list[Properties]
) -> None:
    if java_filter.knows_searches or not any(word in condition for word in _NEWER_WORDS):
        assert ours(condition, asked) == java_filter.verdict(condition, asked)


_WORDS = (
    *NAMES,
    *("=", "<>", ">", ">=", "<", "<=", "(", ")", ",", "+", "-", "--", "/*", "*/", "-- x\n", "/* x **/", "\t", "\n"),
    *("AND", "or", "Not", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "contains", "STARTSWITH", "ENDSWITH"),
    *("0", "1", "3l", "0.0", "2.5", "5.", ".5", "1E3", "9223372036854775808", "1e999", "'x'", "'it''s'", "''", "'"),
    *(";", "!", "#", '"', "é", "\xa0", "\v"),
)
# What we refuse and Java does not: it drops the rest of a text where it stops to understand it.
_STRICTER = ("comes after the end", "does not begin with 0", "is never closed")
_soup = st.lists(st.sampled_from(_WORDS), max_size=9).map(" ".join)
_tight = st.lists(st.sampled_from(_WORDS), max_size=7).map("".join)


@settings(max_examples=2500)
@given(text=_soup | _tight | conditions.map(written).flatmap(lambda text: st.sampled_from(_mutations(text))))
@example("a = 1 -- it's a comment without an end of line")
@example("a = --1")
@example("a IS NULL CONTAINS 'x'")
@example("NOT a = 1")
@example("a = b = c")
@example("TRUE = a")
@example("+a IN ('x')")
def test_whatever_is_written_is_read_alike(java_filters: dict[str, JavaFilter], text: str) -> None:
    asked: list[Properties] = [{}, {"a": "1"}, {"a": "3", "b": "x"}, {"b": "it's", "TAGS": "true", "$x_1": "2.5"}]
    if not any(stricter in reason(text) for stricter in _STRICTER):
        assert ours(text, asked) == java_filters[SERVER_RELEASES[-1]].verdict(text, asked)


def _mutations(text: str) -> list[str]:
    words = text.split(" ")
    return [" ".join(words[:cut] + words[cut + 1 :]) for cut in range(len(words))]


@pytest.mark.parametrize("rest", [")", "b = 2", "AN b = 2", "LIKE 'x'", "NULL"])
def test_java_drops_what_follows_a_condition_and_we_refuse_it(java_filter: JavaFilter, rest: str) -> None:
    asked = [{"a": "1"}]
    assert java_filter.verdict(f"a = 1 {rest}", asked) == [True]
    assert ours(f"a = 1 {rest}", asked) is None
