"""A message that nobody can read does not stop its queue: it goes to the dead letters with the reason, and is told.

Bodies that are flagged as what they are not are written by hand: no producer of ours would.
"""

import logging
import zlib
from pathlib import Path

import pytest

from steelyard import Admin, Consumer, Finding, PullConsumer, Queue, ReceivedMessage, StoredMessage
from steelyard.client.admin.dead_letters import dead_letter_error
from steelyard.errors import MalformedRecord
from steelyard.wire.codes import STORED_CODES, RequestCode
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.properties import encode_properties
from tests.compressions import HAS_LZ4
from tests.live.clusters import Live, chosen, until
from tests.live.handled import Handled
from tests.serve.raw_connection import RawConnection

_ZLIB, _LZ4, _ZSTD, _UNKNOWN, _WRAPPED = 0x301, 0x101, 0x201, 0x701, 0x0C0
_WHOLE = zlib.compress(b"whole" * 1_000)
_KINDS = {
    "garbage as zlib": (_ZLIB, b"no zlib stream"),
    "garbage as LZ4": (_LZ4, b"no LZ4 frame"),
    "garbage as zstd": (_ZSTD, b"no zstd frame"),
    "a codec that nobody knows": (_UNKNOWN, b"?"),
    "a stream that is cut off": (_ZLIB, _WHOLE[:-5]),
    "a bomb": (_ZLIB, zlib.compress(bytes((16 << 20) + 1))),
    "a batch that is none": (_WRAPPED, b"\x00\x00"),
}
if not HAS_LZ4:
    del _KINDS["garbage as LZ4"]
if chosen().startswith("apache-5"):
    # They store no batch that they did not make themselves.
    del _KINDS["a batch that is none"]


def _put(live: Live, queue: Queue, body: bytes, sys_flag: int = 0, **properties: str) -> None:
    with Admin(live.namesrv) as admin:
        places = {place.name: place for place in admin.brokers.list()}
    header = SendMessageV2(
        "senders",
        queue.topic,
        "TBW102",
        4,
        queue.queue_id,
        sys_flag,
        1_700_000_000_000,
        0,
        encode_properties({"UNIQ_KEY": "A1", **properties}).decode(),
        0,
        False,
        None,
        False,
    )
    with RawConnection(places[queue.broker].addresses[0]) as connection:
        answer = connection.request(RequestCode.SEND_MESSAGE_V2, header, body)
        assert answer.code in STORED_CODES, answer.remark


def _fill(live: Live, topic: str, kinds: tuple[str, ...] = tuple(_KINDS)) -> Queue:
    """Store what nobody can read, and something good before it, between and behind it."""
    queue = Queue(topic, live.brokers[0], 0)
    _put(live, queue, b"good-first")
    for number, kind in enumerate(kinds):
        sys_flag, body = _KINDS[kind]
        _put(live, queue, body, sys_flag, KEYS=f"bad-{number}", colour="red")
        _put(live, queue, b"good-%d" % number)
    return queue


def _good(count: int) -> list[bytes]:
    return [b"good-first", *(b"good-%d" % number for number in range(count))]


def _letters(admin: Admin, group: str, count: int) -> list[StoredMessage]:
    until(lambda: len(admin.dead_letters.list(group)) >= count, f"{count} dead letters")
    return sorted(admin.dead_letters.list(group), key=lambda letter: int(letter.properties["UNREADABLE_OFFSET"]))


def _check_letters(letters: list[StoredMessage], queue: Queue) -> None:
    assert [letter.body for letter in letters] == [body for _, body in _KINDS.values()]
    for number, letter in enumerate(letters):
        properties = letter.properties
        assert properties["UNREADABLE_QUEUE"] == str(queue)
        assert properties["UNREADABLE_OFFSET"] == str(2 * number + 1)
        assert dead_letter_error(letter) == f"the body cannot be read: {properties['STEELYARD_ERROR']}"
        assert (properties["RETRY_TOPIC"], properties["colour"]) == (queue.topic, "red")
        assert (letter.keys, letter.message_id) == ((f"bad-{number}",), "A1")


@pytest.mark.parametrize("kind", ["concurrent", "in batches", "orderly", "on the loop"])
def test_a_consumer_goes_on_behind_what_nobody_can_read(
    cluster: Live, admin: Admin, topic: str, group: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = _fill(cluster, topic)
    handled, findings = Handled(), list[Finding]()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.on_warning(findings.append)
    is_batch = kind == "in batches"

    def take(given: ReceivedMessage | list[ReceivedMessage]) -> None:
        for message in given if isinstance(given, list) else [given]:
            handled(message)

    async def take_on_loop(given: ReceivedMessage | list[ReceivedMessage]) -> None:
        take(given)

    function = take_on_loop if kind == "on the loop" else take
    consumer.handles(topic, orderly=kind == "orderly", batch=8 if is_batch else 1)(function)
    with caplog.at_level(logging.WARNING, "steelyard"), consumer:
        handled.wait(len(_KINDS) + 1, cluster.pass_time)
        _check_letters(_letters(admin, group, len(_KINDS)), queue)
    seen = [message.body for message in handled.messages]
    assert (seen if kind == "orderly" else sorted(seen)) == (
        _good(len(_KINDS)) if kind == "orderly" else sorted(_good(len(_KINDS)))
    )
    assert f"{queue}, offset " in findings[0].message
    assert "cannot be read and goes to the dead letters: " in findings[0].message
    assert findings[0].message in caplog.text
    (standing,) = [each for each in admin.offsets.list(group, topic) if each.queue == queue]
    assert standing.committed == 2 * len(_KINDS) + 1


def test_each_broadcasting_member_goes_on_behind_it(
    cluster: Live, admin: Admin, topic: str, group: str, tmp_path: Path
) -> None:
    queue, handled = _fill(cluster, topic), Handled()
    consumer = Consumer(cluster.namesrv, group=group, mode="broadcast", offsets_dir=tmp_path, start_from="first")
    consumer.handles(topic)(handled)
    with consumer:
        handled.wait(len(_KINDS) + 1)
        _check_letters(_letters(admin, group, len(_KINDS)), queue)


@pytest.mark.parametrize("is_assigned", [False, True], ids=["shared", "assigned"])
def test_a_pull_consumer_goes_on_behind_it(
    cluster: Live, admin: Admin, topic: str, group: str, *, is_assigned: bool
) -> None:
    queue = _fill(cluster, topic)
    polled: list[bytes] = []
    with PullConsumer(cluster.namesrv, group, start_from="first") as pull_consumer:
        if is_assigned:
            pull_consumer.assign([queue])
        else:
            pull_consumer.subscribe(topic)
        while len(polled) <= len(_KINDS):
            polled += [each.body for each in pull_consumer.poll(1)]
        _check_letters(_letters(admin, group, len(_KINDS)), queue)
        until(
            lambda: pull_consumer.committed(queue) == 2 * len(_KINDS) + 1,
            "all of it is committed",
            pull_consumer.commit,
        )
    assert polled == _good(len(_KINDS))


def test_what_is_to_be_skipped_leaves_no_letter(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    _fill(cluster, topic)
    handled, findings = Handled(), list[Finding]()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first", on_unreadable="skip")
    consumer.on_warning(findings.append)
    consumer.handles(topic)(handled)
    with consumer:
        handled.wait(len(_KINDS) + 1)
    assert admin.dead_letters.list(group) == []
    assert any("is skipped" in finding.message for finding in findings)


@pytest.mark.parametrize("orderly", [False, True], ids=["in any order", "in order"])
def test_a_queue_that_is_to_stop_stands_still_and_gives_the_reason(
    cluster: Live, admin: Admin, topic: str, group: str, *, orderly: bool
) -> None:
    queue = _fill(cluster, topic, ("garbage as zlib",))
    handled, findings = Handled(), list[Finding]()

    def consumer() -> Consumer:
        made = Consumer(cluster.namesrv, group=group, start_from="first", on_unreadable="stop")
        made.on_warning(findings.append)
        made.handles(topic, orderly=orderly)(handled)
        return made

    with consumer() as first:
        until(lambda: findings, "it is told")
        until(lambda: handled.messages, "what is before it")
        assert "the queue stands still there" in findings[0].message
        until(lambda: "it stands still at offset 1, which cannot be read" in str(first.explain()), "it is explained")
        assert f"warning: {queue} stands still at offset 1" in str(first.explain())
    assert admin.dead_letters.list(group) == []
    (standing,) = [each for each in admin.offsets.list(group, topic) if each.queue == queue]
    assert standing.committed == 1
    until(lambda: not admin.groups.describe(group).members, "the group is empty")
    admin.offsets.reset(group, topic, to=2, queues=[queue])
    before = len(handled.messages)
    with consumer():
        until(lambda: len(handled.messages) > before, "what is behind it")
    assert handled.messages[-1].body == b"good-0"


@pytest.mark.parametrize("is_assigned", [False, True], ids=["shared", "assigned"])
def test_a_pull_consumer_that_is_to_stop_raises(cluster: Live, topic: str, group: str, *, is_assigned: bool) -> None:
    queue = _fill(cluster, topic, ("garbage as zlib",))
    polled: list[bytes] = []
    with PullConsumer(cluster.namesrv, group, start_from="first", on_unreadable="stop") as pull_consumer:
        if is_assigned:
            pull_consumer.assign([queue])
        else:
            pull_consumer.subscribe(topic)

        def poll() -> None:
            while True:
                polled.extend(each.body for each in pull_consumer.poll(0.1))

        with pytest.raises(MalformedRecord, match=r"offset 1, cannot be read"):
            poll()
        assert polled == [b"good-first"]
        assert pull_consumer.poll(0) == []
        assert "stands still" in str(pull_consumer.explain())
        pull_consumer.seek(queue, 2)
        while b"good-0" not in polled:
            polled += [each.body for each in pull_consumer.poll(1)]


def test_a_letter_is_given_again_as_it_was(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    with consumer:
        _put(cluster, Queue(topic, cluster.brokers[0], 0), b"no zlib stream", _ZLIB)
        (letter,) = _letters(admin, group, 1)
        admin.dead_letters.resend(letter)
        first, second = _letters(admin, group, 2)
    assert first.body == second.body == b"no zlib stream"
    assert second.properties["UNREADABLE_SYS_FLAG"] == str(_ZLIB)
    assert not handled.messages
