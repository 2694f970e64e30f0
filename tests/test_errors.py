"""One tree of errors: drawn as it is, complete for the protocol's codes, and fit to cross a process border."""

import copy
import re
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import errors
from steelyard.errors import (
    ConfigurationError,
    DiskFailed,
    Fault,
    ImpossibleEvent,
    LimitExceeded,
    MessagesLost,
    MissingExtra,
    ProtocolError,
    Retry,
    RowRefused,
    ServerError,
    SteelyardError,
    TransportError,
    UnknownStrategy,
    error_class,
    error_for,
)

# Answers that are results: done; stored, but flush or replica late; nothing to pull yet, pull on, offset moved.
_NOT_ERRORS = {0, 10, 11, 12, 19, 20, 21}

_ERROR_CODES = [
    *(1, 2, 3, 4, 13, 14, 15, 16, 17, 18, *range(22, 30), *range(200, 214), 215, 501, 604, 1500),
    *(3001, 3002),
]

# What a producer tries on another broker when an answer says no: 5.3.1's list.
_RETRIED_ELSEWHERE = {1, 2, 14, 16, 17, 204, 205, 1500}


def _below(kind: type[SteelyardError]) -> Iterator[type[SteelyardError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


_KINDS = list(_below(SteelyardError))


def _example(kind: type[SteelyardError]) -> SteelyardError:
    """Make one error of a kind, with every fact it can carry."""
    if issubclass(kind, ServerError):
        return kind("a remark", code=(kind.codes or (4711,))[0], server="broker-a")
    if issubclass(kind, LimitExceeded):
        return kind("a header", where="frame", limit=10, found=11, at=4)
    if issubclass(kind, ProtocolError):
        return kind("the length is negative", where="frame", at=0)
    if issubclass(kind, MissingExtra):
        return kind("LZ4 bodies", extra="lz4")
    if issubclass(kind, UnknownStrategy):
        return kind("avrage", known=("average", "sticky"), nearest="average")
    if issubclass(kind, DiskFailed):
        return kind("fdatasync", path="commitlog/00000000000000000000", why="input/output error")
    if issubclass(kind, ImpossibleEvent):
        return kind("orders@broker-a:3", state="DRAINING", event="NO_PEER_HOLDS", after="OWNED")
    if issubclass(kind, RowRefused):
        return kind("its text is empty", row=17, column="tags", partition=3, next_step="give null for none")
    if issubclass(kind, MessagesLost):
        return kind("orders@broker-a:3", 10, 25, why="the broker keeps messages from offset 25 on")
    return kind("it did not work", next_step="try this")


def _drawn() -> list[tuple[str, str]]:
    """Read the drawing in the module's docstring: each class with the one it hangs under."""
    found: list[tuple[str, str]] = []
    hanging: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if line == "    SteelyardError":
            hanging = ["SteelyardError"]
            continue
        branch = re.match(r"^    ([│ ]*)[├└]── (.*)$", line)
        if branch is None:
            continue
        depth = len(branch[1]) // 4 + 1
        # The names come first, one or several; where a word about them follows, it starts in lower case.
        names = re.match(r"(?:[A-Z]\w+(?:  |$))+", branch[2] + "  ")
        assert names is not None, f"no class in the drawn line {line!r}"
        listed = names[0].split()
        found += [(name, hanging[depth - 1]) for name in listed]
        hanging = [*hanging[:depth], listed[-1]]
    return found


def test_the_drawing_is_the_tree() -> None:
    real = {(child.__name__, kind.__name__) for kind in _KINDS for child in kind.__subclasses__()}
    drawn = _drawn()
    assert len(drawn) == len({name for name, _ in drawn}), "a class is drawn twice"
    assert set(drawn) == real, "redraw the tree in the docstring of errors.py"


def test_every_error_is_of_the_module_that_people_import() -> None:
    for kind in _KINDS:
        assert kind.__module__ == "steelyard.errors"
        assert kind.__name__ in errors.__all__
        assert getattr(errors, kind.__name__) is kind


@pytest.mark.parametrize("kind", _KINDS)
def test_every_error_says_whose_fault_it_is_and_whether_to_try_again(kind: type[SteelyardError]) -> None:
    assert isinstance(kind.fault, Fault)
    assert isinstance(kind.retry, Retry)


@pytest.mark.parametrize("kind", _KINDS)
def test_an_error_crosses_a_process_border_unchanged(kind: type[SteelyardError]) -> None:
    error = _example(kind)
    error.add_note("seen by a worker")
    for copied in (ForkingPickler.loads(ForkingPickler.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(copied) is kind
        assert copied.args == error.args
        assert vars(copied) == vars(error)
        assert str(copied) == str(error)
        assert (copied.fault, copied.retry, copied.next_step) == (error.fault, error.retry, error.next_step)


@pytest.mark.parametrize("kind", _KINDS)
def test_a_message_is_one_sentence_that_ends_in_what_to_do_next(kind: type[SteelyardError]) -> None:
    error = _example(kind)
    text = str(error)
    assert text == text.strip()
    assert "\n" not in text
    assert not text.endswith((".", ";", ":"))
    assert text.startswith(error.what)
    assert text.endswith(error.next_step)
    assert not error.next_step.endswith(".")


@pytest.mark.parametrize("kind", [*TransportError.__subclasses__(), *ServerError.__subclasses__()])
def test_nobody_is_left_without_a_next_step(kind: type[SteelyardError]) -> None:
    if kind.retry is Retry.NEVER or kind.fault is Fault.CALLER:
        assert kind.next_step, f"{kind.__name__} does not say what to do: give it a next_step"


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.TimedOut, TimeoutError),
        (errors.ReplyTimedOut, TimeoutError),
        (errors.CannotConnect, ConnectionError),
        (errors.ConnectionClosed, ConnectionError),
        (errors.NoNameServer, ConnectionError),
        (errors.MissingExtra, ImportError),
    ],
)
def test_what_python_has_a_class_for_is_caught_by_it(kind: type[SteelyardError], builtin: type[Exception]) -> None:
    error = _example(kind)
    with pytest.raises(builtin) as caught:
        raise error
    assert caught.value is error


def test_every_error_code_of_the_protocol_has_a_class() -> None:
    assert [code for code in _ERROR_CODES if error_class(code) is ServerError] == []


def test_no_class_claims_a_code_that_is_no_error_or_that_nobody_sends() -> None:
    claimed = [code for kind in _below(ServerError) if issubclass(kind, ServerError) for code in kind.codes]
    assert sorted(claimed) == sorted(_ERROR_CODES)
    assert not _NOT_ERRORS.intersection(claimed)


def test_the_codes_that_only_a_client_knows_have_a_class_each() -> None:
    own = {kind.code: kind for kind in _below(TransportError) if issubclass(kind, TransportError) and kind.code}
    assert sorted(own) == list(range(10001, 10008))


def test_the_answers_that_another_broker_may_take_are_those_that_java_retries() -> None:
    assert {code for code in _ERROR_CODES if error_class(code).retry is Retry.ELSEWHERE} == _RETRIED_ELSEWHERE


@given(st.integers(), st.text(), st.text(min_size=1))
def test_any_answer_becomes_an_error_that_keeps_what_was_said(code: int, remark: str, server: str) -> None:
    error = error_for(code, remark, server=server)
    assert isinstance(error, error_class(code))
    assert (error.code, error.remark, error.server) == (code, remark, server)
    assert str(error).startswith(f"{server} answered {code}: {error.says}")
    assert remark.strip() in str(error)


def test_a_next_step_of_the_moment_replaces_the_usual_one() -> None:
    usual = error_for(17, "no route")
    better = error_for(17, "no route", next_step="did you mean 'orders'?")
    assert usual.next_step == errors.TopicNotFound.next_step
    assert str(better).endswith("; did you mean 'orders'?")
    assert errors.TopicNotFound.next_step == usual.next_step


def test_an_unknown_strategy_names_the_nearest_and_all_that_are_known() -> None:
    error = UnknownStrategy("avrage", known=("average", "sticky"), nearest="average")
    assert str(error) == ("no allocation strategy is called 'avrage'; did you mean average? known: average, sticky")
    assert isinstance(error, ConfigurationError)
    assert "did you mean" not in str(UnknownStrategy("x", known=("average",)))


def test_a_limit_says_how_much_was_found_where_that_is_known() -> None:
    assert str(LimitExceeded("a header", where="frame", limit=10, at=4)) == "frame, byte 4: a header exceeds 10"
    assert str(LimitExceeded("a header", where="frame", limit=10, found=11)) == "frame: a header is 11, the limit is 10"
