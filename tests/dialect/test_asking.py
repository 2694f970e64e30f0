"""What a member says is what brokers read: ours, by what it then knows; all others, by the words of the protocol."""

from tests.broker.client import Client
from tests.dialect.talk import BROKER, GROUP, ME, OTHER, Talk, options, q, stocked

from steelyard.balance import actions, events
from steelyard.balance.actions import Start, StartAt
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.dialect.voice import Voice
from steelyard.model import FilterKind, Queue, Subscription
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.heartbeat import Heartbeat, Held, MessageModel, StartFrom
from steelyard.wire.bodies.locks import LockRequest
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.headers.group import AskRunningState, CommitOffset
from steelyard.wire.headers.pull import Pull
from steelyard.wire.headers.send import SendBack


def command_of(action: actions.Action, wanted: MemberOptions | None = None) -> Command:
    said = Voice(wanted or options(), "0f" * 16).say(action, 1_000)
    assert said is not None
    return said.command


def test_a_heartbeat_says_who_we_are_what_we_want_and_what_we_hold() -> None:
    beat = actions.Heartbeat(BROKER, {q(1): 8, q(0): 7}, leaving=False, strategy="sticky", version=3)
    body = decode_body(Heartbeat, command_of(beat).body)
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
    assert word.groups[GROUP].held == {"orders": (Held(0, 7), Held(1, 8))}


def test_only_the_first_heartbeat_of_a_line_says_what_is_held() -> None:
    word = decode_body(Heartbeat, command_of(actions.Heartbeat(BROKER)).body).steelyard
    assert word is not None
    assert word.groups is not None
    assert word.groups[GROUP].held is None


def test_a_broadcasting_member_says_so_and_has_no_retries() -> None:
    wanted = MemberOptions(
        GROUP,
        ME,
        {"orders": Subscription("orders", "a > 1", FilterKind.SQL92)},
        Mode.BROADCAST,
        start=Start(StartAt.FIRST),
    )
    (consumer,) = decode_body(Heartbeat, command_of(actions.Heartbeat(BROKER), wanted).body).consumers
    assert (consumer.model, consumer.start_from) == (MessageModel.BROADCASTING, StartFrom.FIRST_OFFSET)
    assert [(each.topic, each.kind, each.expression) for each in consumer.subscriptions] == [
        ("orders", "SQL92", "a > 1")
    ]


def test_a_pull_may_be_held_and_never_carries_a_commit_nor_a_subscription() -> None:
    header = command_of(actions.Pull(q(), 4, 17, 32)).header(Pull)
    assert (header.sys_flag, header.commit_offset, header.subscription) == (2, 0, None)
    assert (header.queue_offset, header.max_msg_nums, header.suspend_timeout_millis) == (17, 32, 15_000)


def test_a_pull_asks_for_no_newer_subscription_than_any_heartbeat_told() -> None:
    assert command_of(actions.Pull(q(), 1, 0)).header(Pull).sub_version == 5
    assert command_of(actions.Pull(q(0, "%RETRY%billing"), 1, 0)).header(Pull).sub_version == 5


def test_a_lock_takes_and_a_renewal_says_that_it_does_not() -> None:
    lock = decode_body(LockRequest, command_of(actions.Lock(BROKER, (q(),), "billing%LEASE")).body)
    assert (lock.client_id, lock.group) == (ME, "billing%LEASE")
    assert lock.steelyard is not None
    assert (lock.steelyard.renew, lock.steelyard.epochs) == (False, None)
    renewal = decode_body(LockRequest, command_of(actions.Renew(BROKER, (q(),), "billing", (7,))).body)
    assert renewal.steelyard is not None
    assert (renewal.steelyard.renew, renewal.steelyard.epochs) == (True, (7,))


def test_an_unlock_names_the_epochs_that_are_known_and_may_be_for_another_member() -> None:
    unlock = actions.Unlock(BROKER, (q(0), q(1)), "billing%LEASE", (7, None), owner=OTHER)
    body = decode_body(LockRequest, command_of(unlock).body)
    assert body.client_id == OTHER
    assert body.steelyard is not None
    assert body.steelyard.epochs == (7, -1)


def test_a_commit_is_fenced_by_the_epoch_of_its_lock() -> None:
    assert command_of(actions.Commit(q(), 12, 7)).header(CommitOffset).lock_epoch == 7
    assert command_of(actions.Commit(q(), 12)).header(CommitOffset).lock_epoch is None


def test_a_question_to_a_peer_says_what_is_waited_for_only_if_something_is() -> None:
    poke = command_of(actions.AskHolders(BROKER, OTHER, (q(3),))).header(AskRunningState)
    assert poke.steelyard_wants == '[["orders","broker-0",3]]'
    assert command_of(actions.AskHolders(BROKER, OTHER)).header(AskRunningState).steelyard_wants is None


def test_a_poke_with_very_many_queues_still_fits_into_a_header() -> None:
    many = tuple(Queue("t" * 100, "b" * 30, number) for number in range(5_000))
    wants = command_of(actions.AskHolders(BROKER, OTHER, many)).header(AskRunningState).steelyard_wants
    assert wants is not None
    assert len(wants) < 32_768


def test_a_failed_message_is_named_by_its_place_in_the_log() -> None:
    talk = Talk.registered(stocked("a", "b"))
    found = talk.ask(actions.Pull(q(), 1, 0))
    assert isinstance(found, events.Pulled)
    said = talk.voice.say(actions.SendBack(q(), 1, 1, found.messages[1], 3), talk.desk.now_ms)
    assert said is not None
    header = said.command.header(SendBack)
    record = talk.desk.queue("orders")[1]
    assert (header.offset, header.group, header.delay_level) == (record.position, GROUP, 3)


def test_what_concerns_nobody_else_is_not_said() -> None:
    voice = Voice(options(), "i")
    for action in (actions.Handle(q(), 1, (), (), None), actions.Report("taken", "we have it"), actions.Left()):
        assert voice.say(action, 0) is None
    assert voice.due_ms() > 1 << 60


def test_a_goodbye_is_not_waited_for() -> None:
    talk = Talk.registered(stocked())
    assert talk.say(actions.Unregister(BROKER)) == []
    assert talk.voice.due_ms() > 1 << 60
    assert talk.desk.state.members.group(GROUP) is None


def test_the_claims_of_a_first_heartbeat_are_taken_by_a_broker_that_started_again() -> None:
    desk = stocked()
    before = Talk.registered(desk)
    granted = before.ask(actions.Lock(BROKER, (q(),), "billing%LEASE"))
    assert isinstance(granted, events.LocksAnswered)
    epoch = granted.granted[q()]
    assert epoch is not None
    desk.save(everything=True)
    desk.restart()
    after = Talk(desk)
    after.ask(actions.Heartbeat(BROKER, held={q(): epoch}))
    other = Client(desk, OTHER)
    other.beat()
    denied = Talk.registered(desk, options("10.0.0.3@1@sy1")).ask(actions.Lock(BROKER, (q(),), "billing%LEASE"))
    assert isinstance(denied, events.LocksAnswered)
    assert denied.denied == {q(): ME}


def test_every_code_of_the_dialect_is_a_request_that_servers_know() -> None:
    said = [
        command_of(action).code
        for action in (
            actions.AskRoute("orders"),
            actions.AskUptime(BROKER),
            actions.AskGroup(BROKER),
            actions.AskOffset(q(), Start()),
        )
    ]
    assert said == [
        Code.GET_ROUTEINFO_BY_TOPIC,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.GET_CONSUMER_LIST_BY_GROUP,
        Code.QUERY_CONSUMER_OFFSET,
    ]
