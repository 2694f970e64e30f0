"""A verdict is as bad as the worst of its reasons, and its one line can be read by people and by tools."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.hazards import Progress
from steelyard.cli.check.gathering import told
from steelyard.cli.check.judging import RoundTrip, judge_cluster, judge_group, judge_send, judge_topic
from steelyard.cli.check.telling import changed
from steelyard.cli.check.verdict import NO_LIMITS, Figure, Level, Limits, Reason, Verdict, worst
from steelyard.client.admin.cluster import Broker
from steelyard.client.admin.group_view import Facts, Member, look_at
from steelyard.client.admin.topics import QueueEnds, TopicView
from steelyard.client.checkup.facts import NameServerSeen, ServerKind
from steelyard.errors import CannotConnect, ConfigurationError, SteelyardError, TimedOut, error_for
from steelyard.model import BrokerPlace, Permission, Queue, QueueCounts
from steelyard.wire.codes import ResponseCode

_LINE = re.compile(r"(OK|WARNING|CRITICAL|UNKNOWN) ([^:|]+): ([^|]*?)( \| (.*))?")
_FIGURE = re.compile(r"('[^']+'|[^'= ]+)=-?[\d.e+-]+(%|s|ms|B)?(;[\d.e+-]*;[\d.e+-]*)?")

levels = st.sampled_from(Level)
numbers = st.floats(0, 1e12, allow_nan=False) | st.integers(0, 1 << 62)
limits = st.builds(Limits, st.none() | numbers, st.none() | numbers)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=20)


@given(st.lists(levels))
def test_critical_beats_unknown_and_unknown_beats_warning(found: list[Level]) -> None:
    for level in (Level.CRITICAL, Level.UNKNOWN, Level.WARNING):
        if level in found:
            assert worst(found) is level
            return
    assert worst(found) is Level.OK


@given(limits, numbers, numbers)
def test_more_is_never_better(limit: Limits, one: float, other: float) -> None:
    less, more = sorted((one, other))
    if limit.warn is None or limit.crit is None or limit.warn <= limit.crit:
        assert limit.level(less) <= limit.level(more)
    assert limit.passed(less) is None or limit.level(less) is not Level.OK


@given(texts, st.lists(st.builds(Reason, levels, texts), max_size=4))
def test_a_line_has_one_bar_and_every_figure_behind_it(about: str, reasons: list[Reason]) -> None:
    figures = (Figure("lag", 12, limits=Limits(10)), Figure("age", 0.25, "s"))
    line = Verdict(about.replace(":", "").replace("|", "") or "x", "well", tuple(reasons), figures).line()
    said, bar, behind = line.rpartition(" | ")
    assert bar
    assert "|" not in said
    assert behind == "lag=12;10; age=0.25s"


def test_a_level_that_changed_is_marked_and_a_part_that_is_gone_is_told() -> None:
    part = Verdict("group billing", "fine")
    everything = Verdict("all", "fine", parts=(part,))
    assert changed(everything, {}) == ["OK all: fine", "OK group billing: fine"]
    before = {"all": Level.OK, "group billing": Level.OK, "group old": Level.WARNING}
    assert changed(everything, before) == ["OK all: fine", "GONE (was WARNING) group old"]
    bad = replace(part, reasons=(Reason(Level.WARNING, "too many wait"),))
    assert changed(replace(everything, parts=(bad,)), {"all": Level.OK, "group billing": Level.OK}) == [
        "WARNING (was OK) all: fine",
        "WARNING (was OK) group billing: too many wait",
    ]


def test_nothing_is_gone_because_a_cluster_cannot_be_seen() -> None:
    cluster = Verdict("cluster", "fine", (Reason(Level.CRITICAL, "nobody answers"),))
    before = {"all": Level.CRITICAL, "cluster": Level.CRITICAL, "group billing": Level.OK}
    assert changed(Verdict("all", "", parts=(cluster,)), before) == ["CRITICAL all: "]


# -- clusters ---------------------------------------------------------------------------------------------------------


def _names(address: str, *brokers: str) -> NameServerSeen:
    places = {name: BrokerPlace(name, "c", {0: f"{name}:10911"}) for name in brokers}
    return NameServerSeen(address, ("10.0.0.1",), kind=ServerKind.NAME_SERVER, brokers=places)


def _broker(name: str, *, version: str = "V4_9_7", disk_used: float = 0.2, problem: str | None = None) -> Broker:
    return Broker(name, "c", {0: f"{name}:10911"}, version=version, disk_used=disk_used, problem=problem)


DISK = Limits(75, 90)
BOTH = (_names("n1:9876", "a", "b"), _names("n2:9876", "a", "b"))


@pytest.mark.parametrize(
    ("brokers", "names", "level", "word"),
    [
        ([_broker("a"), _broker("b")], BOTH, Level.OK, "2 brokers of 2 answer"),
        ([_broker("a"), _broker("b", problem="gone")], BOTH, Level.CRITICAL, "broker b does not answer (gone)"),
        ([_broker("a"), _broker("b", disk_used=0.8)], BOTH, Level.WARNING, "disk of b is 80 % full"),
        ([_broker("a"), _broker("b", disk_used=0.95)], BOTH, Level.CRITICAL, "more than 90 %"),
        ([_broker("a"), _broker("b", version="V5_5_0")], BOTH, Level.WARNING, "4.9.7, 5.5.0"),
        ([_broker("a")], (_names("n1:9876", "a"), _names("n2:9876")), Level.WARNING, "n2:9876 does not know a"),
        ([_broker("a")], (_names("n1:9876", "a"), NameServerSeen("n2:9876", no_ip="who?")), Level.WARNING, "(who?)"),
        ([], (NameServerSeen("n2:9876", no_ip="who?"),), Level.CRITICAL, "name server n2:9876 does not answer"),
        ([], (_names("n1:9876"),), Level.CRITICAL, "no broker is registered"),
    ],
)
def test_a_cluster_is_judged(brokers: list[Broker], names: tuple[NameServerSeen, ...], level: Level, word: str) -> None:
    verdict = judge_cluster(brokers, names, disk=DISK)
    assert (verdict.level, word in verdict.line()) == (level, True), verdict.line()
    assert _LINE.fullmatch(verdict.line())


def test_only_who_says_how_many_brokers_there_are_hears_of_one_that_was_forgotten() -> None:
    assert judge_cluster([_broker("a")], (_names("n1:9876", "a"),), disk=DISK).level is Level.OK
    verdict = judge_cluster([_broker("a")], (_names("n1:9876", "a"),), disk=DISK, least=2)
    assert verdict.level is Level.CRITICAL
    assert verdict.sentences == ["only 1 broker of 2 is up"]


# -- groups, topics, messages -----------------------------------------------------------------------------------------

QUEUE = Queue("orders", "a", 0)


@pytest.mark.parametrize(
    ("waiting", "age_s", "members", "level", "sentence"),
    [
        (0, None, 1, Level.OK, "1 member online, nothing waits"),
        (11, 1, 1, Level.WARNING, "11 messages wait, more than 10"),
        (101, 1, 1, Level.CRITICAL, "101 messages wait, more than 100"),
        (1, 301, 1, Level.WARNING, "the oldest message has waited for 5m, longer than 5m"),
        (0, None, 2, Level.CRITICAL, "only 1 member of 2 is online"),
    ],
)
def test_a_group_is_judged(waiting: int, age_s: int | None, members: int, level: Level, sentence: str) -> None:
    facts = Facts(
        group="billing",
        at_ms=0,
        members=(Member("c1@sy1", ours=True),),
        queues=(QUEUE,),
        locked={QUEUE: "c1@sy1"},
        our_brokers=frozenset("a"),
        progress={QUEUE: Progress(0, 5, 5 + waiting)},
    )
    oldest = None if age_s is None else timedelta(seconds=age_s)
    verdict = judge_group(look_at(facts), oldest, lag=Limits(10, 100), age=Limits(300), members=members)
    assert (verdict.level, verdict.sentences[0]) == (level, sentence)
    assert f"lag={waiting};10;100" in verdict.line()
    assert all(_FIGURE.fullmatch(str(each)) for each in verdict.figures)


def test_what_looks_wrong_in_a_group_is_a_warning_in_plain_words() -> None:
    twice = "group billing has c1 twice"
    facts = Facts(group="billing", at_ms=0, members=(Member("c1"),), told={"a": (twice,)})
    verdict = judge_group(look_at(facts), None, lag=NO_LIMITS, age=NO_LIMITS, members=1)
    assert (verdict.level, verdict.sentences) == (Level.WARNING, [twice])


def _topic(*ends: int, permission: int = 6) -> TopicView:
    queues = tuple(QueueEnds(Queue("orders", "a", number), 0, end) for number, end in enumerate(ends))
    return TopicView("orders", queues, (QueueCounts("a", len(ends), len(ends), Permission(permission)),))


@pytest.mark.parametrize(
    ("view", "brokers", "level", "word"),
    [
        (_topic(5, 5), 0, Level.OK, "2 queues to write and 2 to read on 1 broker"),
        (_topic(5, 5, permission=4), 0, Level.CRITICAL, "no queue can be written to"),
        (_topic(5, 5, permission=2), 0, Level.CRITICAL, "no queue can be read"),
        (_topic(5, 5), 2, Level.CRITICAL, "only 1 broker of 2 have it"),
        (_topic(1000, 10, 10, 10), 0, Level.WARNING, "orders@a:0 holds 3.9 times what queues hold on average"),
        (_topic(9, 0, 0, 0), 0, Level.OK, "9 messages"),
    ],
)
def test_a_topic_is_judged(view: TopicView, brokers: int, level: Level, word: str) -> None:
    verdict = judge_topic(view, skew=Limits(3), brokers=brokers)
    assert (verdict.level, word in verdict.line()) == (level, True), verdict.line()


def test_a_message_that_is_slow_or_does_not_come_back_is_told_by_broker() -> None:
    trips = [RoundTrip("a", 2, 5), RoundTrip("b", 400, 600), RoundTrip("c", problem="it said no")]
    verdict = judge_send(None, trips, took=Limits(0.5, 3))
    assert verdict.level is Level.CRITICAL
    assert verdict.sentences == ["c: it said no", "b took 600 ms there and back, more than 500 ms"]
    assert "there_and_back_b=0.6s;0.5;3" in verdict.line()


# -- what goes wrong on the way ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (CannotConnect("mq:9876 cannot be reached"), Level.CRITICAL),
        (TimedOut("mq:9876 did not answer"), Level.CRITICAL),
        (error_for(ResponseCode.TOPIC_NOT_EXIST, "no", server="a"), Level.CRITICAL),
        (error_for(ResponseCode.NO_PERMISSION, "no", server="a"), Level.UNKNOWN),
        (error_for(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no", server="a"), Level.UNKNOWN),
        (error_for(ResponseCode.SYSTEM_ERROR, "no", server="a"), Level.UNKNOWN),
    ],
)
def test_who_is_not_there_is_critical_and_who_does_not_tell_is_unknown(error: SteelyardError, level: Level) -> None:
    async def look() -> Verdict:
        raise error

    verdict = asyncio.run(told("cluster", look()))
    assert verdict.level is level
    assert error.what in verdict.line()


def test_what_was_asked_for_wrongly_is_no_verdict() -> None:
    async def look() -> Verdict:
        raise ConfigurationError("the address is none")

    with pytest.raises(ConfigurationError):
        asyncio.run(told("cluster", look()))
