"""The survey of a whole cluster: what follows from several looks, whose turn it is, what is said to be wrong."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from steelyard import Admin, ClientConfig, Consumer, Message, Producer
from steelyard.client.admin.brokers import BrokerThroughput
from steelyard.client.admin.group_description import GroupDescription, GroupFacts, MemberDescription, describe_group
from steelyard.client.admin.offsets import QueueOffsets
from steelyard.client.admin.topics import TopicDescription, TopicKind, TopicSummary
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.dashboard.cluster_poller import PolledCluster
from steelyard.dashboard.rates import PollQueue, RateMeter
from steelyard.dashboard.server import Dashboard
from steelyard.diagnostics.group import ProgressSample
from steelyard.model import Permission, Queue
from steelyard.model.finding import Finding
from steelyard.serve.embedded import Cluster
from tests.dashboard.http_client import get
from tests.live.clusters import until

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOTH = Permission.READ | Permission.WRITE


def _at(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _flow(came: int, went: int = 0, *, broker: str = "broker-a", disk: float | None = 0.1) -> BrokerThroughput:
    return BrokerThroughput(
        cluster="c", broker=broker, id=0, address="127.0.0.1:1", in_today=came, out_today=went, disk_used=disk
    )


def _view(at_ms: int, committed: int, end: int, *, members: int = 1, owned: bool = True) -> GroupDescription:
    queue = Queue("orders", "broker-a", 0)
    who = tuple(MemberDescription(f"10.0.0.1@till-{number}#1@sy1", ours=True) for number in range(members))
    return describe_group(
        GroupFacts(
            group="billing",
            at_ms=at_ms,
            members=who,
            queues=(queue,),
            locked={queue: who[0].id} if owned and who else {},
            our_brokers=frozenset({"broker-a"}),
            progress={queue: ProgressSample(at_ms, committed, end)},
        )
    )


def _recorded(*views: GroupDescription) -> PolledCluster:
    book = PolledCluster()
    book.record_brokers([_flow(0)], 0)
    book.record_topics([])
    book.record_groups(["billing"])
    for view in views:
        book.record_group(view)
    return book


# -- counting ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 1_000)), min_size=2, max_size=30))
def test_a_rate_is_what_grew_over_how_long_it_took(steps: list[tuple[int, int]]) -> None:
    meter, at_ms, count = RateMeter[str](10**9), 0, 0
    meter.add(at_ms, {"orders": count})
    for span_ms, more in steps:
        at_ms, count = at_ms + span_ms, count + more
        meter.add(at_ms, {"orders": count})
    assert meter.rate == count * 1_000 / at_ms


def test_a_counter_that_goes_back_counts_for_nothing() -> None:
    meter = RateMeter[str]()
    meter.add(0, {"a": 100, "b": 100})
    meter.add(1_000, {"a": 0, "b": 150})
    assert meter.growth() == {"a": 0, "b": 50}


def test_only_the_last_seconds_count() -> None:
    meter = RateMeter[str](5_000)
    for at_ms, count in ((0, 0), (5_000, 1_000), (10_000, 1_000), (15_000, 1_000)):
        meter.add(at_ms, {"orders": count})
    assert meter.rate == 0.0


@given(st.lists(st.text(min_size=1, max_size=3), unique=True, min_size=1, max_size=20), st.integers(1, 100))
def test_everybody_has_a_turn_before_anybody_has_two(names: list[str], rounds: int) -> None:
    turns = PollQueue()
    turns.set_names(names)
    seen: list[str] = []
    for now_ms in range(1, rounds + 1):
        name = turns.next_due(now_ms)
        if name is not None:
            seen.append(name)
            turns.reschedule(name, now_ms)
    for place in range(0, len(seen), len(names)):
        part = seen[place : place + len(names)]
        assert len(set(part)) == len(part)
    assert turns.has_polled_all == (rounds >= len(names))


def test_who_is_gone_has_no_turn_any_more() -> None:
    turns = PollQueue()
    turns.set_names(["a", "b"])
    turns.set_names(["b"])
    assert turns.next_due(0) == "b"
    assert turns.next_due(0) is None
    turns.reschedule("b", 10)
    turns.set_names([])
    assert turns.next_due(10) is None
    assert turns.has_polled_all


# -- what follows from looks ------------------------------------------------------------------------------------------


def test_the_rate_of_a_broker_is_counted_and_not_only_told() -> None:
    book = PolledCluster()
    book.record_brokers([_flow(0)], 0)
    book.record_brokers([_flow(500, 300)], 2_000)
    (row,) = book.snapshot.brokers
    assert (row.in_rate, row.out_rate) == (250.0, 150.0)
    last = book.snapshot.points[-1]
    assert (last.at_ms, last.in_rate, last.out_rate) == (2_000, 250.0, 150.0)


def test_after_a_rest_the_line_of_the_last_minutes_has_a_gap() -> None:
    book = PolledCluster()
    book.record_brokers([_flow(0)], 0)
    book.reset()
    book.record_brokers([_flow(0)], 600_000)
    assert [point.at_ms for point in book.snapshot.points] == [0, 1, 600_000]
    assert book.snapshot.points[1].in_rate is None


def test_the_lag_of_all_is_reported_only_when_all_were_seen() -> None:
    book = _recorded()
    book.record_brokers([_flow(0)], 2_000)
    assert book.snapshot.points[-1].lag is None
    book.record_group(_view(3_000, 5, 9))
    book.record_brokers([_flow(0)], 4_000)
    assert book.snapshot.points[-1].lag == 4


def test_how_fast_a_group_is_takes_two_polls() -> None:
    book = _recorded(_view(1_000, 10, 100))
    assert book.snapshot.groups["billing"].out_rate is None
    book.record_group(_view(3_000, 50, 100))
    assert book.snapshot.groups["billing"].out_rate == 20.0
    assert book.snapshot.groups["billing"].lag == 50


def test_a_hand_over_is_no_trouble_unless_it_lasts() -> None:
    nobodys = Finding("unowned queues", "no member of group billing reads orders@broker-a:0")
    first, second = (_with(_view(at_ms, 1, 1), nobodys) for at_ms in (1_000, 3_000))
    book = _recorded(first)
    assert not book.snapshot.warnings
    book.record_group(second)
    assert [each.sentence for each in book.snapshot.warnings] == [nobodys.message]


def _with(view: GroupDescription, *found: Finding) -> GroupDescription:
    return replace(view, findings=found)


def test_what_two_brokers_say_of_one_id_is_reported_once() -> None:
    said = [
        f"group billing has the client id c on several connections, 10.0.0.1:{port} and 10.0.0.2:{port}: …"
        for port in (1, 2)
    ]
    book = _recorded(_with(_view(0, 1, 1), *(Finding("duplicate id: c", each) for each in said)))
    assert [each.sentence for each in book.snapshot.warnings] == said[1:]
    assert book.snapshot.warnings[0].is_severe


def test_messages_that_wait_while_nobody_is_there_are_a_warning() -> None:
    book = _recorded(_view(0, 1, 3, members=0))
    (warning,) = book.snapshot.warnings
    assert (warning.subject, warning.name) == ("group", "billing")
    assert warning.sentence.startswith(
        "group billing has no member online and a lag of 2 messages; start its consumers"
    )
    assert warning.evidence == {"members": 0, "lag": 2}
    assert not warning.is_severe


def test_members_are_asked_only_where_no_broker_knows_who_has_what() -> None:
    assert _recorded(_view(0, 1, 1)).next_group_to_ask(60_000) is None
    book = _recorded(_view(0, 1, 1, owned=False))
    assert book.next_group_to_ask(60_000) == "billing"
    # They are left in peace for a while, whether they answer or not.
    assert book.next_group_to_ask(61_000) is None
    book.record_member_view(_with(_view(5, 1, 1), Finding("claimed twice orders", "orders is read by two")))
    book.record_group(_view(10, 1, 1, owned=False))
    assert [each.sentence for each in book.snapshot.warnings] == ["orders is read by two"]


def test_a_disk_that_is_nearly_full_and_a_broker_that_is_silent_are_warnings() -> None:
    book = PolledCluster()
    silent = BrokerThroughput(cluster="c", broker="broker-c", id=0, address="10.0.0.3:1", problem="it hangs up")
    book.record_brokers([_flow(0, disk=0.8), _flow(0, broker="broker-b", disk=0.95), silent], 0)
    assert [(each.name, each.is_severe) for each in book.snapshot.warnings] == [
        ("broker-b", True),
        ("broker-c", True),
        ("broker-a", False),
    ]


def test_what_a_cluster_does_not_tell_is_said() -> None:
    book = PolledCluster()
    book.record_brokers([_flow(0, disk=None)], 0)
    assert book.snapshot.notes == ("broker-a does not report its disk usage.",)


def _dead(end: int, stored_ms: int) -> TopicDescription:
    queue = QueueOffsets(Queue("%DLQ%billing", "broker-a", 0), 0, end, _at(stored_ms))
    return TopicDescription("%DLQ%billing", (queue,), ())


def test_dead_letters_that_grow_are_wrong_and_those_of_today_are_worth_a_look() -> None:
    book = _recorded(_view(0, 1, 1))
    topic = TopicSummary("%DLQ%billing", TopicKind.DEAD, 1, ("broker-a",), _BOTH)
    assert book.record_topics([topic]) == ["%DLQ%billing"]
    book.record_brokers([_flow(0)], 60_000)
    book.record_topic(_dead(3, 30_000), 60_000)
    (first,) = book.snapshot.warnings
    assert (first.subject, first.is_severe) == ("dead letters", False)
    assert first.sentence.startswith(
        "group billing has 3 dead letters, the last 30 s old; see why: steelyard dead-letters"
    )
    assert book.snapshot.groups["billing"].dead_letters == 3
    book.record_topic(_dead(5, 119_000), 120_000)
    (then,) = book.snapshot.warnings
    assert then.is_severe
    assert then.sentence.startswith("group billing gave up 2 messages within the last 1 min; it has 5 dead letters; ")


def test_a_topic_knows_who_reads_it_and_whether_it_is_busy() -> None:
    book = _recorded(_view(0, 1, 1))
    book.record_topics([TopicSummary("orders", TopicKind.USERS, 1, ("broker-a",), _BOTH)])
    ends = [
        TopicDescription("orders", (QueueOffsets(Queue("orders", "broker-a", 0), 0, end, _at(900_000)),), ())
        for end in (10, 30)
    ]
    assert book.record_topic(ends[0], 901_000)
    assert book.record_topic(ends[1], 903_000)
    assert not book.record_topic(ends[1], 1_900_000)
    row = book.snapshot.topics["orders"]
    assert row.groups == ("billing",)
    assert row.messages == 30


def test_a_topic_that_no_broker_has_is_a_warning() -> None:
    book = _recorded()
    assert book.record_topics([TopicSummary("orders", TopicKind.USERS, 0, (), Permission(0))]) == []
    assert [each.subject for each in book.snapshot.warnings] == ["topic"]


# -- alive ------------------------------------------------------------------------------------------------------------


def test_dead_letters_of_a_live_group_are_seen(cluster: Cluster, dashboard: Dashboard) -> None:
    def fail(message: ReceivedMessage) -> None:
        raise ValueError(message.topic)

    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", 1)
        admin.groups.create("billing", retries=0)
        consumer = Consumer(ClientConfig(cluster.namesrv), group="billing", start_from="first")
        consumer.handles("orders")(fail)
        with consumer:
            producer.send(Message("orders", b"bad"))
            until(lambda: _about(dashboard, "dead letters") == ["billing"], "the dead letter is seen")


def _about(dashboard: Dashboard, what: str) -> list[str]:
    return [each["name"] for each in get(dashboard, "/api/overview")["warnings"] if each["subject"] == what]


def test_a_broker_that_signed_off_is_missed_until_it_is_back_or_an_hour_is_over() -> None:
    def missed(book: PolledCluster) -> list[str]:
        return [each.sentence for each in book.snapshot.warnings if each.kind == "gone"]

    book = _recorded()
    book.record_brokers([_flow(0), _flow(0, broker="broker-b")], 1_000)
    book.record_brokers([_flow(0)], 61_000)
    (sentence,) = missed(book)
    assert sentence.startswith(
        "broker broker-b: it was last registered at the name servers 1 min ago: its messages cannot"
    )
    book.record_brokers([_flow(0), _flow(0, broker="broker-b")], 63_000)
    assert missed(book) == []
    book.record_brokers([_flow(0)], 65_000)
    book.record_brokers([_flow(0)], 4_000_000)
    assert missed(book) == []
