"""Records of traces, as Java's clients write them: what is right is read, anything else is left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.wire.message_traces import TraceEvent, decode_traces, encode_trace

PUB = "Pub 1762776000000 DefaultRegion shop orders ID-1 paid k1 10.0.0.1:10911 12 3 0 PLACE true".split()


def text(*records: list[str]) -> str:
    return "".join("\x01".join(record) + "\x02" for record in records)


def test_a_send_says_who_where_and_how_long() -> None:
    (trace,) = decode_traces(text(PUB))
    assert trace == TraceEvent(
        what="sent",
        message_id="ID-1",
        at_ms=1_762_776_000_000,
        group="shop",
        topic="orders",
        tags="paid",
        keys="k1",
        store_host="10.0.0.1:10911",
        body_bytes=12,
        took_ms=3,
        offset_id="PLACE",
        went_well=True,
        region="DefaultRegion",
        kind="normal",
    )


@pytest.mark.parametrize("more", [[], ["10.0.0.7"], ["10.0.0.7", "something new"]])
def test_newer_clients_may_say_more(more: list[str]) -> None:
    (trace,) = decode_traces(text([*PUB, *more]))
    assert (trace.offset_id, trace.went_well) == ("PLACE", True)


def test_old_clients_said_less() -> None:
    (sent,) = decode_traces(text([*PUB[:-2], "true"]))
    assert (sent.offset_id, sent.went_well) == (None, True)
    (handled,) = decode_traces(text(["SubAfter", "call", "ID-1", "12", "true", "k1"]))
    assert (handled.at_ms, handled.group, handled.outcome, handled.went_well) == (None, None, None, True)


def test_a_handling_has_two_records() -> None:
    received, handled = decode_traces(
        text(
            ["SubBefore", "1762776000000", "", "billing", "call", "ID-1", "2", "null"],
            ["SubAfter", "call", "ID-1", "12", "false", "null", "3", "1762776000012", "billing"],
        )
    )
    assert (received.what, received.attempt, received.keys, received.request_id) == ("received", 3, None, "call")
    assert (handled.what, handled.outcome, handled.at_ms) == ("handled", "returned nothing", 1_762_776_000_012)


def test_the_end_of_a_transaction_and_a_recall() -> None:
    ended, recalled = decode_traces(
        text(
            "EndTransaction 5 r shop orders ID-1 null k1 h:1 2 TX COMMIT_MESSAGE false".split(),
            "Recall 6 r shop orders ID-1 false".split(),
        )
    )
    assert (ended.what, ended.outcome, ended.went_well) == ("transaction ended", "COMMIT_MESSAGE", True)
    assert (ended.kind, ended.was_asked) == ("commit", False)
    assert (recalled.what, recalled.went_well) == ("recalled", False)


def test_what_is_no_record_is_left_out() -> None:
    broken = [*PUB]
    broken[1] = "soon"
    assert [trace.message_id for trace in decode_traces(text(broken, ["Pub"], ["Sub", "x"], PUB, [""]))] == ["ID-1"]
    assert list(decode_traces("")) == []


@given(st.text(alphabet="\x01\x02PubSubAfterBefore0123456789-", max_size=200))
def test_any_text_is_read(anything: str) -> None:
    for trace in decode_traces(anything):
        assert trace.what


# -- writing ----------------------------------------------------------------------------------------------------------

_TEXTS = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1).filter(lambda t: t != "null")
_MAYBE = st.none() | _TEXTS
_NUMBERS = st.integers(0, (1 << 62))


def test_a_send_is_written_as_java_writes_it() -> None:
    (trace,) = decode_traces(text(PUB))
    assert encode_trace(trace) == text(PUB)


def test_what_is_not_known_is_never_empty() -> None:
    # Java's reader drops empty fields at the end of a record, and then misses them.
    for what in ("sent", "received", "handled", "transaction ended"):
        written = encode_trace(TraceEvent(what=what, message_id="ID-1", keys="", group=""))
        assert all(written.removesuffix("\x02").split("\x01"))


def test_a_separator_in_a_name_does_not_break_a_record() -> None:
    (trace,) = decode_traces(encode_trace(TraceEvent(what="received", message_id="ID-1", group="a\x01b\x02c")))
    assert trace.group == "a b c"


@given(
    st.builds(
        TraceEvent,
        what=st.just("sent"),
        message_id=_TEXTS,
        at_ms=_NUMBERS,
        group=_MAYBE,
        topic=_MAYBE,
        tags=_MAYBE,
        keys=_MAYBE,
        store_host=_MAYBE,
        body_bytes=_NUMBERS,
        took_ms=_NUMBERS,
        offset_id=_MAYBE,
        went_well=st.booleans(),
        region=_TEXTS,
        kind=st.sampled_from(["normal", "half", "commit", "delayed"]),
    )
    | st.builds(
        TraceEvent,
        what=st.just("received"),
        message_id=_TEXTS,
        at_ms=_NUMBERS,
        group=_MAYBE,
        request_id=_MAYBE,
        attempt=st.integers(1, 100),
        keys=_MAYBE,
        region=_TEXTS,
    )
    | st.builds(
        TraceEvent,
        what=st.just("handled"),
        message_id=_TEXTS,
        at_ms=_NUMBERS,
        group=_MAYBE,
        request_id=_MAYBE,
        took_ms=_NUMBERS,
        went_well=st.booleans(),
        keys=_MAYBE,
        outcome=st.sampled_from(["done", "timed out", "raised", "failed"]),
    )
    | st.builds(
        lambda commits, **named: TraceEvent(
            what="transaction ended",
            outcome="COMMIT_MESSAGE" if commits else "ROLLBACK_MESSAGE",
            went_well=commits,
            **named,
        ),
        commits=st.booleans(),
        message_id=_TEXTS,
        at_ms=_NUMBERS,
        group=_MAYBE,
        topic=_MAYBE,
        tags=_MAYBE,
        keys=_MAYBE,
        store_host=_MAYBE,
        region=_TEXTS,
        kind=st.just("commit"),
        was_asked=st.booleans(),
    )
)
def test_what_is_written_is_read_again(trace: TraceEvent) -> None:
    assert list(decode_traces(encode_trace(trace))) == [trace]
