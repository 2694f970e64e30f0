"""A verdict is as bad as the worst of its reasons, and its one line can be read by people and by tools."""

import asyncio
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.cli.check_rules import (
    NO_THRESHOLDS,
    CheckMetric,
    CheckReason,
    CheckResult,
    CheckStatus,
    RoundTrip,
    Thresholds,
    evaluate_cluster,
    evaluate_group,
    evaluate_send,
    evaluate_topic,
    worst_status,
)
from steelyard.cli.check_run import changed_lines, result_of
from steelyard.client.admin.brokers import BrokerStatus
from steelyard.client.admin.group_description import GroupFacts, MemberDescription, describe_group
from steelyard.client.admin.offsets import QueueOffsets
from steelyard.client.admin.topics import TopicDescription
from steelyard.diagnostics.group import ProgressSample
from steelyard.diagnostics.servers import NameServerFacts, ServerKind
from steelyard.errors import CannotConnect, ConfigurationError, SteelyardError, TimedOut, error_for
from steelyard.model import BrokerAddresses, Permission, Queue, QueueCounts
from steelyard.model.finding import Finding, Severity
from steelyard.wire.codes import ResponseCode

_LINE = re.compile(r"(OK|WARNING|CRITICAL|UNKNOWN) ([^:|]+): ([^|]*?)( \| (.*))?")
_FIGURE = re.compile(r"('[^']+'|[^'= ]+)=-?[\d.e+-]+(%|s|ms|B)?(;[\d.e+-]*;[\d.e+-]*)?")

levels = st.sampled_from(CheckStatus)
numbers = st.floats(0, 1e12, allow_nan=False) | st.integers(0, 1 << 62)
limits = st.builds(Thresholds, st.none() | numbers, st.none() | numbers)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=20)


@given(st.lists(levels))
def test_critical_beats_unknown_and_unknown_beats_warning(found: list[CheckStatus]) -> None:
    for level in (CheckStatus.CRITICAL, CheckStatus.UNKNOWN, CheckStatus.WARNING):
        if level in found:
            assert worst_status(found) is level
            return
    assert worst_status(found) is CheckStatus.OK


@given(limits, numbers, numbers)
def test_more_is_never_better(limit: Thresholds, one: float, other: float) -> None:
    less, more = sorted((one, other))
    if limit.warn is None or limit.crit is None or limit.warn <= limit.crit:
        assert limit.status_of(less) <= limit.status_of(more)
    assert limit.exceeded(less) is None or limit.status_of(less) is not CheckStatus.OK


@given(texts, st.lists(st.builds(CheckReason, levels, texts), max_size=4))
def test_a_line_has_one_bar_and_every_figure_behind_it(about: str, reasons: list[CheckReason]) -> None:
    figures = (CheckMetric("lag", 12, thresholds=Thresholds(10)), CheckMetric("age", 0.25, "s"))
    line = CheckResult(about.replace(":", "").replace("|", "") or "x", "well", tuple(reasons), figures).status_line()
    output, bar, behind = line.rpartition(" | ")
    assert bar
    assert "|" not in output
    assert behind == "lag=12;10; age=0.25s"


def test_a_level_that_changed_is_marked_and_a_part_that_is_gone_is_reported() -> None:
    part = CheckResult("group billing", "fine")
    everything = CheckResult("all", "fine", parts=(part,))
    assert changed_lines(everything, {}) == ["OK all: fine", "OK group billing: fine"]
    before = {"all": CheckStatus.OK, "group billing": CheckStatus.OK, "group old": CheckStatus.WARNING}
    assert changed_lines(everything, before) == ["OK all: fine", "GONE (was WARNING) group old"]
    bad = replace(part, reasons=(CheckReason(CheckStatus.WARNING, "too many wait"),))
    assert changed_lines(
        replace(everything, parts=(bad,)), {"all": CheckStatus.OK, "group billing": CheckStatus.OK}
    ) == [
        "WARNING (was OK) all: fine",
        "WARNING (was OK) group billing: too many wait",
    ]


def test_nothing_is_gone_because_a_cluster_cannot_be_seen() -> None:
    cluster = CheckResult("cluster", "fine", (CheckReason(CheckStatus.CRITICAL, "nobody answers"),))
    before = {"all": CheckStatus.CRITICAL, "cluster": CheckStatus.CRITICAL, "group billing": CheckStatus.OK}
    assert changed_lines(CheckResult("all", "", parts=(cluster,)), before) == ["CRITICAL all: "]


# -- clusters ---------------------------------------------------------------------------------------------------------


def _names(address: str, *brokers: str) -> NameServerFacts:
    places = {name: BrokerAddresses(name, "c", {0: f"{name}:10911"}) for name in brokers}
    return NameServerFacts(address, ("10.0.0.1",), kind=ServerKind.NAME_SERVER, brokers=places)


def _broker(name: str, *, version: str = "V4_9_7", disk_used: float = 0.2, problem: str | None = None) -> BrokerStatus:
    return BrokerStatus(name, "c", {0: f"{name}:10911"}, version=version, disk_used=disk_used, problem=problem)


DISK = Thresholds(75, 90)
BOTH = (_names("n1:9876", "a", "b"), _names("n2:9876", "a", "b"))


@pytest.mark.parametrize(
    ("brokers", "names", "level", "word"),
    [
        ([_broker("a"), _broker("b")], BOTH, CheckStatus.OK, "2 brokers of 2 answer"),
        (
            [_broker("a"), _broker("b", problem="gone")],
            BOTH,
            CheckStatus.CRITICAL,
            "broker b: it does not report its state (gone)",
        ),
        ([_broker("a"), _broker("b", disk_used=0.8)], BOTH, CheckStatus.WARNING, "broker b: its disk is 80 % full"),
        ([_broker("a"), _broker("b", disk_used=0.95)], BOTH, CheckStatus.CRITICAL, "from 90 % on brokers reject"),
        ([_broker("a"), _broker("b", version="V5_5_0")], BOTH, CheckStatus.WARNING, "4.9.7, 5.5.0"),
        (
            [_broker("a")],
            (_names("n1:9876", "a"), _names("n2:9876")),
            CheckStatus.WARNING,
            "broker a: n2:9876 does not know it",
        ),
        (
            [_broker("a")],
            (_names("n1:9876", "a"), NameServerFacts("n2:9876", no_ip="who?")),
            CheckStatus.WARNING,
            "(who?)",
        ),
        (
            [],
            (NameServerFacts("n2:9876", no_ip="who?"),),
            CheckStatus.CRITICAL,
            "name server n2:9876: the name n2 has no address here",
        ),
        ([], (_names("n1:9876"),), CheckStatus.CRITICAL, "no broker is registered"),
    ],
)
def test_a_cluster_is_checked(
    brokers: list[BrokerStatus], names: tuple[NameServerFacts, ...], level: CheckStatus, word: str
) -> None:
    verdict = evaluate_cluster(brokers, names, disk=DISK)
    assert (verdict.status, word in verdict.status_line()) == (level, True), verdict.status_line()
    assert _LINE.fullmatch(verdict.status_line())


def test_only_who_says_how_many_brokers_there_are_detects_one_that_was_forgotten() -> None:
    assert evaluate_cluster([_broker("a")], (_names("n1:9876", "a"),), disk=DISK).status is CheckStatus.OK
    verdict = evaluate_cluster([_broker("a")], (_names("n1:9876", "a"),), disk=DISK, min_brokers=2)
    assert verdict.status is CheckStatus.CRITICAL
    assert verdict.sentences == ["only 1 broker of 2 is up"]


# -- groups, topics, messages -----------------------------------------------------------------------------------------

QUEUE = Queue("orders", "a", 0)


@pytest.mark.parametrize(
    ("waiting", "age_s", "members", "level", "sentence"),
    [
        (0, None, 1, CheckStatus.OK, "1 member online, no lag"),
        (11, 1, 1, CheckStatus.WARNING, "a lag of 11 messages, more than 10"),
        (101, 1, 1, CheckStatus.CRITICAL, "a lag of 101 messages, more than 100"),
        (1, 301, 1, CheckStatus.WARNING, "the oldest message has waited for 5 min 1 s, longer than 5 min"),
        (0, None, 2, CheckStatus.CRITICAL, "only 1 member of 2 is online"),
    ],
)
def test_a_group_is_checked(waiting: int, age_s: int | None, members: int, level: CheckStatus, sentence: str) -> None:
    facts = GroupFacts(
        group="billing",
        at_ms=0,
        members=(MemberDescription("c1@sy1", ours=True),),
        queues=(QUEUE,),
        locked={QUEUE: "c1@sy1"},
        our_brokers=frozenset("a"),
        progress={QUEUE: ProgressSample(0, 5, 5 + waiting)},
    )
    oldest = None if age_s is None else timedelta(seconds=age_s)
    verdict = evaluate_group(
        describe_group(facts), oldest, lag=Thresholds(10, 100), age=Thresholds(300), members=members
    )
    assert (verdict.status, verdict.sentences[0]) == (level, sentence)
    assert f"lag={waiting};10;100" in verdict.status_line()
    assert all(_FIGURE.fullmatch(str(each)) for each in verdict.metrics)


def test_what_is_found_in_a_group_is_as_bad_as_its_severity_says() -> None:
    members = (MemberDescription("c1"),)
    for severity, status in ((Severity.ERROR, CheckStatus.CRITICAL), (Severity.WARNING, CheckStatus.WARNING)):
        twice = Finding("duplicate id: c1", "group billing has c1 twice", severity, next_step="rename one")
        facts = GroupFacts(group="billing", at_ms=0, members=members, reported=(twice,))
        verdict = evaluate_group(describe_group(facts), None, lag=NO_THRESHOLDS, age=NO_THRESHOLDS, members=1)
        assert (verdict.status, verdict.sentences) == (status, [twice.message])
        assert verdict.as_json()["findings"] == [
            {
                "kind": twice.kind,
                "severity": severity.value,
                "message": twice.message,
                "next_step": "rename one",
                "evidence": {},
            }
        ]


def _topic(*ends: int, permission: int = 6) -> TopicDescription:
    queues = tuple(QueueOffsets(Queue("orders", "a", number), 0, end) for number, end in enumerate(ends))
    return TopicDescription("orders", queues, (QueueCounts("a", len(ends), len(ends), Permission(permission)),))


@pytest.mark.parametrize(
    ("view", "brokers", "level", "word"),
    [
        (_topic(5, 5), 0, CheckStatus.OK, "2 queues to write and 2 to read on 1 broker"),
        (_topic(5, 5, permission=4), 0, CheckStatus.CRITICAL, "no queue can be written to"),
        (_topic(5, 5, permission=2), 0, CheckStatus.CRITICAL, "no queue can be read"),
        (_topic(5, 5), 2, CheckStatus.CRITICAL, "only 1 broker of 2 have it"),
        (_topic(1000, 10, 10, 10), 0, CheckStatus.WARNING, "orders@a:0 holds 3.9 times what queues hold on average"),
        (_topic(9, 0, 0, 0), 0, CheckStatus.OK, "9 messages"),
    ],
)
def test_a_topic_is_checked(view: TopicDescription, brokers: int, level: CheckStatus, word: str) -> None:
    verdict = evaluate_topic(view, skew=Thresholds(3), brokers=brokers)
    assert (verdict.status, word in verdict.status_line()) == (level, True), verdict.status_line()


def test_a_message_that_is_slow_or_does_not_come_back_is_reported_by_broker() -> None:
    trips = [RoundTrip("a", 2, 5), RoundTrip("b", 400, 600), RoundTrip("c", problem="it said no")]
    verdict = evaluate_send(None, trips, took=Thresholds(0.5, 3))
    assert verdict.status is CheckStatus.CRITICAL
    assert verdict.sentences == ["c: it said no", "round trip via b took 600 ms, more than 500 ms"]
    assert "there_and_back_b=0.6s;0.5;3" in verdict.status_line()


# -- what goes wrong on the way ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (CannotConnect("mq:9876 cannot be reached"), CheckStatus.CRITICAL),
        (TimedOut("mq:9876 did not answer"), CheckStatus.CRITICAL),
        (error_for(ResponseCode.TOPIC_NOT_EXIST, "no", server="a"), CheckStatus.CRITICAL),
        (error_for(ResponseCode.NO_PERMISSION, "no", server="a"), CheckStatus.UNKNOWN),
        (error_for(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no", server="a"), CheckStatus.UNKNOWN),
        (error_for(ResponseCode.SYSTEM_ERROR, "no", server="a"), CheckStatus.UNKNOWN),
    ],
)
def test_who_is_not_there_is_critical_and_who_does_not_report_is_unknown(
    error: SteelyardError, level: CheckStatus
) -> None:
    async def check() -> CheckResult:
        raise error

    verdict = asyncio.run(result_of("cluster", check()))
    assert verdict.status is level
    assert error.what in verdict.status_line()


def test_what_was_asked_for_wrongly_is_no_verdict() -> None:
    async def check() -> CheckResult:
        raise ConfigurationError("the address is none")

    with pytest.raises(ConfigurationError):
        asyncio.run(result_of("cluster", check()))
