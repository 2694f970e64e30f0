"""The requests of a member are what brokers read: ours by what it then knows, all others by recorded frames."""

from msgspec import structs

from steelyard.balance.group import actions, events
from steelyard.balance.group.actions import StartAt, StartPosition
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.model import ExpressionType, Queue, StoredMessage, Subscription
from steelyard.protocol.member_protocol import MemberProtocol
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import ConsumeFromWhere, HeartbeatBody, HeldQueueEpoch, MessageModel
from steelyard.wire.bodies.queue_assignment import LockRequest
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.headers.group import CommitOffset, GetConsumerRunningState
from steelyard.wire.headers.pull import PullMessage
from steelyard.wire.headers.send import SendMessageBack, SendMessageV2
from tests.broker.fake_consumer import FakeConsumer
from tests.protocol.broker_dialogue import BROKER, GROUP, ME, OTHER, BrokerDialogue, options, q, stocked


def command_of(action: actions.Action, wanted: MemberOptions | None = None) -> Command:
    outgoing = MemberProtocol(wanted or options(), "0f" * 16).encode(action, 1_000)
    assert outgoing is not None
    return outgoing.command


def test_a_heartbeat_says_who_we_are_what_we_want_and_what_we_hold() -> None:
    beat = actions.SendHeartbeat(
        BROKER, {q(1): 8, q(0): 7}, is_leaving=False, strategy="sticky", subscription_version=3
    )
    body = decode_body(HeartbeatBody, command_of(beat).body)
    (consumer,) = body.consumers
    assert body.client_id == ME
    assert consumer.group == GROUP
    assert consumer.model is MessageModel.CLUSTERING
    assert [(each.topic, each.version) for each in consumer.subscriptions] == [("orders", 8), ("%RETRY%billing", 8)]
    word = body.steelyard
    assert word is not None
    assert (word.instance, word.heartbeat_ms, word.leaving) == ("0f" * 16, 3_000, False)
    assert word.groups is not None
    assert word.groups[GROUP].strategy == "sticky"
    assert word.groups[GROUP].held == {"orders": (HeldQueueEpoch(0, 7), HeldQueueEpoch(1, 8))}


def test_only_the_first_heartbeat_of_a_connection_says_what_is_held() -> None:
    word = decode_body(HeartbeatBody, command_of(actions.SendHeartbeat(BROKER)).body).steelyard
    assert word is not None
    assert word.groups is not None
    assert word.groups[GROUP].held is None


def test_a_broadcasting_member_reports_it_and_has_no_retries() -> None:
    wanted = MemberOptions(
        GROUP,
        ME,
        {"orders": Subscription("orders", "a > 1", ExpressionType.SQL92)},
        ConsumeMode.BROADCAST,
        start=StartPosition(StartAt.FIRST),
    )
    (consumer,) = decode_body(HeartbeatBody, command_of(actions.SendHeartbeat(BROKER), wanted).body).consumers
    assert (consumer.model, consumer.start_from) == (MessageModel.BROADCASTING, ConsumeFromWhere.FIRST_OFFSET)
    assert [(each.topic, each.kind, each.expression) for each in consumer.subscriptions] == [
        ("orders", "SQL92", "a > 1")
    ]


def test_a_pull_may_be_held_and_never_carries_a_commit_nor_a_subscription() -> None:
    header = command_of(actions.PullMessages(q(), 4, 17, 32)).header(PullMessage)
    assert (header.sys_flag, header.commit_offset, header.subscription) == (2, 0, None)
    assert (header.queue_offset, header.max_msg_nums, header.suspend_timeout_millis) == (17, 32, 15_000)


def test_a_pull_has_no_newer_subscription_than_any_heartbeat() -> None:
    assert command_of(actions.PullMessages(q(), 1, 0)).header(PullMessage).sub_version == 5
    assert command_of(actions.PullMessages(q(0, "%RETRY%billing"), 1, 0)).header(PullMessage).sub_version == 5


def test_a_lock_takes_and_a_renewal_says_that_it_does_not() -> None:
    lock = decode_body(LockRequest, command_of(actions.LockQueues(BROKER, (q(),), "billing%LEASE")).body)
    assert (lock.client_id, lock.group) == (ME, "billing%LEASE")
    assert lock.steelyard is not None
    assert (lock.steelyard.renew, lock.steelyard.epochs) == (False, None)
    renewal = decode_body(LockRequest, command_of(actions.RenewLocks(BROKER, (q(),), "billing", (7,))).body)
    assert renewal.steelyard is not None
    assert (renewal.steelyard.renew, renewal.steelyard.epochs) == (True, (7,))


def test_an_unlock_names_the_epochs_that_are_known_and_may_be_for_another_member() -> None:
    unlock = actions.UnlockQueues(BROKER, (q(0), q(1)), "billing%LEASE", (7, None), owner=OTHER)
    body = decode_body(LockRequest, command_of(unlock).body)
    assert body.client_id == OTHER
    assert body.steelyard is not None
    assert body.steelyard.epochs == (7, -1)


def test_a_commit_is_fenced_by_the_epoch_of_its_lock() -> None:
    assert command_of(actions.Commit(q(), 12, 7)).header(CommitOffset).lock_epoch == 7
    assert command_of(actions.Commit(q(), 12)).header(CommitOffset).lock_epoch is None


def test_a_question_to_a_peer_says_what_is_waited_for_only_if_something_is() -> None:
    request = command_of(actions.ProbeOwnership(BROKER, OTHER, (q(3),))).header(GetConsumerRunningState)
    assert request.steelyard_wants == '[["orders","broker-0",3]]'
    assert command_of(actions.ProbeOwnership(BROKER, OTHER)).header(GetConsumerRunningState).steelyard_wants is None


def test_a_handover_request_with_very_many_queues_still_fits_into_a_header() -> None:
    many = tuple(Queue("t" * 100, "b" * 30, number) for number in range(5_000))
    wants = command_of(actions.ProbeOwnership(BROKER, OTHER, many)).header(GetConsumerRunningState).steelyard_wants
    assert wants is not None
    assert len(wants) < 32_768


def test_a_failed_message_is_named_by_its_place_in_the_log() -> None:
    talk = BrokerDialogue.registered(stocked("a", "b"))
    found = talk.ask(actions.PullMessages(q(), 1, 0))
    assert isinstance(found, events.Pulled)
    outgoing = talk.codec.encode(actions.SendBackMessage(q(), 1, 1, found.messages[1], 3), talk.harness.now_ms)
    assert outgoing is not None
    header = outgoing.command.header(SendMessageBack)
    record = talk.harness.queue("orders")[1]
    assert (header.offset, header.group, header.delay_level) == (record.position, GROUP, 3)


def test_why_a_message_failed_is_a_field_or_a_property_of_the_copy() -> None:
    failed = StoredMessage(q(), 1, b"body", {"UNIQ_KEY": "A1"}, position=7)
    back = actions.SendBackMessage(q(), 1, 1, failed, -1, "ValueError: bad")
    assert command_of(back).header(SendMessageBack).steelyard_error == "ValueError: bad"
    assert command_of(structs.replace(back, error="")).header(SendMessageBack).steelyard_error is None
    copy = command_of(structs.replace(back, as_copy=True))
    assert (copy.code, copy.body) == (Code.SEND_MESSAGE_V2, b"body")
    assert "STEELYARD_ERROR\x01ValueError: bad\x02" in (copy.header(SendMessageV2).properties or "")
    full = structs.replace(failed, properties={"a": "x" * 32_700})
    assert command_of(structs.replace(back, message=full, as_copy=True)).code == Code.CONSUMER_SEND_MSG_BACK


def test_local_actions_are_no_requests() -> None:
    member_protocol = MemberProtocol(options(), "i")
    for action in (
        actions.HandleMessages(q(), 1, (), (), None),
        actions.MemberReport("taken", "we have it"),
        actions.MemberLeft(),
    ):
        assert member_protocol.encode(action, 0) is None
    assert member_protocol.due_ms() > 1 << 60


def test_an_unregister_is_not_waited_for() -> None:
    talk = BrokerDialogue.registered(stocked())
    assert talk.send_action(actions.UnregisterMember(BROKER)) == []
    assert talk.codec.due_ms() > 1 << 60
    assert talk.harness.state.consumers.group(GROUP) is None


def test_the_claims_of_a_first_heartbeat_are_taken_by_a_broker_that_started_again() -> None:
    harness = stocked()
    before = BrokerDialogue.registered(harness)
    granted = before.ask(actions.LockQueues(BROKER, (q(),), "billing%LEASE"))
    assert isinstance(granted, events.LocksAnswered)
    epoch = granted.granted[q()]
    assert epoch is not None
    harness.save(everything=True)
    harness.restart()
    after = BrokerDialogue(harness)
    after.ask(actions.SendHeartbeat(BROKER, held={q(): epoch}))
    other = FakeConsumer(harness, OTHER)
    other.heartbeat()
    denied = BrokerDialogue.registered(harness, options("10.0.0.3@1@sy1")).ask(
        actions.LockQueues(BROKER, (q(),), "billing%LEASE")
    )
    assert isinstance(denied, events.LocksAnswered)
    assert denied.denied == {q(): ME}


def test_every_code_of_the_dialect_is_a_request_that_servers_know() -> None:
    outgoing = [
        command_of(action).code
        for action in (
            actions.QueryRoute("orders"),
            actions.QueryUptime(BROKER),
            actions.QueryMemberList(BROKER),
            actions.QueryStartOffset(q(), StartPosition()),
        )
    ]
    assert outgoing == [
        Code.GET_ROUTEINFO_BY_TOPIC,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_CONSUMER_LIST_BY_GROUP,
        Code.QUERY_CONSUMER_OFFSET,
    ]
