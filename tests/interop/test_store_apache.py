"""Directories of our store opened by real Apache brokers, and theirs opened by ours.

A broker takes seconds to start and to stop, so a test tells a whole story with one and ends it as soon as it can.
"""

import json
import shutil
import time
from base64 import b64decode
from pathlib import Path
from zlib import crc32

import pytest

from steelyard.cli.main import main
from steelyard.errors import StoreLocked
from steelyard.serve.disks import RealDisk
from steelyard.store.json_documents import DELAY_OFFSETS, GROUP_OFFSETS, GROUPS, TOPICS, load_document, save_document
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.store.tags_code import SCHEDULE_TOPIC
from steelyard.wire.batch import BatchItem
from steelyard.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from steelyard.wire.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable
from steelyard.wire.compression import compress, with_compression
from steelyard.wire.json_body import ById
from steelyard.wire.properties import encode_properties
from steelyard.wire.record import MessageRecord, decode_records
from steelyard.wire.stored_messages import record_to_message
from steelyard.wire.sysflag import Compression
from tests.interop.servers import ApacheBroker, WireConnection, apache
from tests.interop.wire_client import (
    commit,
    committed,
    create_group,
    create_topic,
    delete_topic,
    pull_all,
    send,
    send_batch,
)

SEGMENT = 1 << 20
SIZES = {"mappedFileSizeCommitLog": SEGMENT}
BORN_HOST = bytes.fromhex("0a00000700001f90")
LONG_TOPIC = "long-" * 40
GROUP = "billing"
ANEW, ANEW_BEFORE = "anew", 5
NEVER_MS = 3_600_000
SCHEDULE = SCHEDULE_TOPIC.decode()

Truth = dict[tuple[str, int], list[MessageRecord]]
"""The messages of each queue."""

pytestmark = pytest.mark.timeout(180)


class Writer:
    """Fills a store, and remembers what it wrote."""

    def __init__(self, store: Store, now_ms: int) -> None:
        self._store, self.now_ms = store, now_ms
        self.truth: Truth = {}

    def write(self, topic: str, queue_id: int, body: bytes, properties: dict[str, str], *, sys_flag: int = 0) -> None:
        """Append one message."""
        self.now_ms += 1
        text = encode_properties(properties)
        times = {"born_ms": self.now_ms - 50, "stored_ms": self.now_ms}
        flags = {"flag": 7, "sys_flag": sys_flag, "reconsume_times": 2, "prepared_offset": 0}
        place = self._store.append(topic.encode(), queue_id, body, text, born_host=BORN_HOST, **times, **flags)
        record = MessageRecord(
            topic.encode(),
            queue_id,
            place.offset,
            place.position,
            body,
            text,
            born_host=BORN_HOST,
            store_host=StoreOptions().store_host,
            crc=crc32(body) & 0x7FFFFFFF,
            size=place.size,
            **times,
            **flags,
        )
        self.truth.setdefault((topic, queue_id), []).append(record)

    def flush(self) -> None:
        """Put what was written into the log."""
        assert self._store.flush().error is None


def filled(
    root: Path, now_ms: int, *, long_topic: bool, close: bool = True
) -> tuple[Truth, dict[tuple[str, int], int]]:
    """Write a directory with everything that ours can have; return its messages, and a group's offsets."""
    disk = RealDisk(root)
    store = Store.open(disk, StoreOptions(segment_bytes=SEGMENT))
    writer = Writer(store, now_ms - NEVER_MS)
    for number in range(900):
        topic, queues = (("orders", 4), ("bills", 2))[number % 3 == 0]
        body = b"%d " % number * (1000 if number % 2 else 1)
        packed = number % 5 == 0
        properties = {"TAGS": f"T{number % 3}", "KEYS": f"k{number} both", "UNIQ_KEY": f"{number:032X}", "näme": "wörd"}
        writer.write(
            topic,
            number % queues,
            compress(body, Compression.ZLIB) if packed else body,
            properties,
            sys_flag=with_compression(0, Compression.ZLIB) if packed else 0,
        )
        if number % 10 == 9:
            writer.flush()
    names = ["orders", "bills", "later", SCHEDULE]
    if long_topic:
        names.append(LONG_TOPIC)
        for number in range(10):
            writer.write(LONG_TOPIC, 0, b"long %d" % number, {"TAGS": "long"})
    for level, body in ((1, b"delivered before"), (1, b"due"), (18, b"much later")):
        waiting = {"REAL_TOPIC": "later", "REAL_QID": "0", "DELAY": str(level), "TAGS": "slow"}
        writer.write(SCHEDULE, level - 1, body, waiting)
    writer.now_ms = now_ms
    writer.write(SCHEDULE, 17, b"even later", {"REAL_TOPIC": "later", "REAL_QID": "0", "DELAY": "18"})
    writer.flush()
    offsets = {("orders", queue_id): 10 + queue_id for queue_id in range(4)} | {("bills", 0): 0, ("bills", 1): 100}
    disk.mkdir("config")
    save_document(disk, TOPICS, TopicConfigTable(topics={name: _settings(name) for name in names}))
    save_document(
        disk, GROUPS, SubscriptionGroupTable(groups={GROUP: SubscriptionGroupConfig(name=GROUP, max_retries=5)})
    )
    save_document(disk, DELAY_OFFSETS, DelayOffsetTable(offsets=ById({1: 1})))
    table: dict[str, dict[int, int]] = {}
    for (topic, queue_id), offset in offsets.items():
        table.setdefault(f"{topic}@{GROUP}", {})[queue_id] = offset
    save_document(disk, GROUP_OFFSETS, ConsumerOffsetTable(offsets={name: ById(each) for name, each in table.items()}))
    if close:
        store.close(now_ms)
    return writer.truth, offsets


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _settings(topic: str) -> TopicConfig:
    queues = {"orders": 4, "bills": 2, SCHEDULE: 18}.get(topic, 1)
    return TopicConfig(name=topic, read_queues=queues, write_queues=queues)


def pulled(connection: WireConnection, queues: list[tuple[str, int]]) -> Truth:
    return {queue: list(pull_all(connection, *queue)) for queue in queues}


def settled(broker: ApacheBroker, topic: str, count: int) -> list[MessageRecord]:
    """Wait until so many messages are in the first queue of a topic."""
    end = time.monotonic() + 20
    with broker.connection() as connection:
        while True:
            found = list(pull_all(connection, topic, 0))
            if len(found) >= count or time.monotonic() > end:
                return found
            time.sleep(0.1)


def check_with_our_tools(capsys: pytest.CaptureFixture[str], root: Path, truth: Truth, copy: Path) -> None:
    """Hold what `verify`, `cat` and our store say of a directory against what its broker served."""
    capsys.readouterr()
    code = main(["store", "verify", str(root), "--json"])
    verdict = json.loads(capsys.readouterr().out)
    assert (code, [each for each in verdict["findings"] if each["is_damage"]]) == (0, [])
    assert verdict["messages"] >= sum(map(len, truth.values()))

    assert main(["store", "cat", str(root), "--json"]) == 0
    shown: dict[tuple[str, int], list[dict[str, object]]] = {}
    for line in capsys.readouterr().out.splitlines():
        message = json.loads(line)
        shown.setdefault((message["topic"], message["queue_id"]), []).append(message)
    for queue, records in truth.items():
        found = shown.get(queue, [])
        if queue[0] == ANEW:
            found = found[ANEW_BEFORE:]  # the log still has what the topic held before it was removed
        assert [_reported(record) for record in records] == [_read(each) for each in found], queue

    shutil.copytree(root, copy)
    store = Store.open(RealDisk(copy), StoreOptions())
    assert store.damages == []
    for (topic, queue_id), records in truth.items():
        low, high = store.bounds(topic.encode(), queue_id)
        assert high - low == len(records)
        read = store.read(topic.encode(), queue_id, low, max_messages=10_000, max_bytes=1 << 30)
        assert list(decode_records(read.joined(), check_crc=True)) == records
    store.close(1)
    shutil.rmtree(copy)


def _reported(record: MessageRecord) -> dict[str, object]:
    message = record_to_message(record, "")
    return {
        "offset": message.offset,
        "position": message.position,
        "born_ms": message.born_ms,
        "stored_ms": message.stored_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "message_id": message.message_id,
        "properties": dict(message.properties),
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "body": message.body,
    }


def _read(shown: dict[str, object]) -> dict[str, object]:
    text = str(shown["body"])
    body = b64decode(text) if shown["body_encoding"] == "base64" else text.encode()
    return {name: value for name, value in shown.items() if name in _NAMES} | {"body": body}


_NAMES = frozenset(
    """
    offset position born_ms stored_ms born_host store_host message_id properties flag sys_flag reconsume_times
    """.split()
)


# -- the stories ------------------------------------------------------------------------------------------------------


def test_apache_serves_our_directory_writes_on_and_gives_it_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, release: str
) -> None:
    root = tmp_path / "store"
    now_ms = _now_ms()
    truth, offsets = filled(root, now_ms, long_topic=release != "4.9.7")
    assert len(list((root / "commitlog").iterdir())) == 2
    ours = list(truth)
    with apache(release, root, **SIZES) as broker:
        with broker.connection() as connection:
            assert pulled(connection, ours) == truth
            assert {queue: committed(connection, GROUP, *queue) for queue in offsets} == offsets
        with pytest.raises(StoreLocked):
            Store.open(RealDisk(root), StoreOptions())
        (delivered,) = settled(broker, "later", 1)
        assert delivered.body == b"due"
        with broker.connection() as connection:
            for number in range(40):
                born_ms = now_ms + number
                send(connection, "orders", number % 4, b"from Apache %d" % number, {"TAGS": "new"}, born_ms=born_ms)
            commit(connection, GROUP, "orders", 0, 99)
            after = pulled(connection, [*ours, ("later", 0)])
        broker.stop()
    assert not (root / "abort").exists()
    assert all(after[queue][: len(records)] == records for queue, records in truth.items())
    assert sum(map(len, after.values())) == sum(map(len, truth.values())) + 41
    check_with_our_tools(capsys, root, after, tmp_path / "copy")
    table = load_document(RealDisk(root, read_only=True), GROUP_OFFSETS).value
    assert table is not None
    assert dict(table.offsets[f"orders@{GROUP}"]) == {0: 99, 1: 11, 2: 12, 3: 13}


def test_apache_serves_our_directory_after_a_crash(tmp_path: Path, release: str) -> None:
    truth, offsets = filled(tmp_path / "held", _now_ms(), long_topic=release != "4.9.7", close=False)
    # Nothing of what a close writes is there; in the copy, nobody holds the lock either.
    root = Path(shutil.copytree(tmp_path / "held", tmp_path / "store"))
    with apache(release, root, **SIZES) as broker, broker.connection() as connection:
        assert pulled(connection, list(truth)) == truth
        assert {queue: committed(connection, GROUP, *queue) for queue in offsets} == offsets


def test_our_store_serves_a_directory_that_apache_wrote(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, release: str
) -> None:
    root = tmp_path / "store"
    queues = [
        *(("orders", number) for number in range(4)),
        *((topic, 0) for topic in ("bills", "later", ANEW, SCHEDULE)),
    ]
    queues.append((SCHEDULE, 17))
    with apache(release, root, **SIZES) as broker:
        with broker.connection() as connection:
            for topic, count in (("orders", 4), ("bills", 1), ("later", 1)):
                create_topic(connection, topic, count)
            create_group(connection, GROUP)
            send_and_make_anew(broker, connection)
            send_everything(connection)
            commit(connection, GROUP, "orders", 2, 17)
        assert [record.body for record in settled(broker, "later", 1)] == [b"soon"]
        with broker.connection() as connection:
            truth = pulled(connection, queues)
        broker.stop()
    assert not (root / "abort").exists()
    assert sum(map(len, truth.values())) == 800 + 30 + 3 + 2 + 1
    check_with_our_tools(capsys, root, truth, tmp_path / "copy")
    disk = RealDisk(root, read_only=True)
    offsets, topics, delays = (
        load_document(disk, GROUP_OFFSETS),
        load_document(disk, TOPICS),
        load_document(disk, DELAY_OFFSETS),
    )
    assert (offsets.problem, topics.problem, delays.problem, load_document(disk, GROUPS).problem) == (
        None,
        None,
        None,
        None,
    )
    assert offsets.value is not None
    assert dict(offsets.value.offsets[f"orders@{GROUP}"]) == {2: 17}
    assert topics.value is not None
    assert topics.value.topics["orders"].read_queues == 4
    assert delays.value is not None
    assert delays.value.offsets[1] == 1

    with apache(release, root, **SIZES) as broker:
        with broker.connection() as connection:
            for number in range(100):
                send(connection, "orders", number % 4, b"again %d" % number, {"KEYS": f"a{number}"}, born_ms=number)
            more = pulled(connection, queues)
        broker.kill()
    assert sum(map(len, more.values())) == 800 + 30 + 3 + 2 + 1 + 100
    check_with_our_tools(capsys, root, more, tmp_path / "copy")


def send_and_make_anew(broker: ApacheBroker, connection: WireConnection) -> None:
    """Send to a topic, remove it, make it again and send once more: its offsets begin again."""
    create_topic(connection, ANEW, 1)
    for number in range(ANEW_BEFORE):
        send(connection, ANEW, 0, b"before %d" % number, {"TAGS": "old"}, born_ms=1)
    # Apache indexes in its own time: what it has not indexed yet when the topic goes would turn up in the new one.
    assert len(settled(broker, ANEW, ANEW_BEFORE)) == ANEW_BEFORE
    delete_topic(connection, ANEW)
    create_topic(connection, ANEW, 1)
    for number in range(3):
        assert send(connection, ANEW, 0, b"anew %d" % number, {"TAGS": "new"}, born_ms=1).queue_offset == number


def send_everything(connection: WireConnection) -> None:
    """Send all kinds of messages: plain, compressed, in batches, delayed."""
    for number in range(800):
        body = b"%d " % number * (1000 if number % 2 else 1)
        properties = {"TAGS": f"T{number % 3}", "KEYS": f"k{number} both", "UNIQ_KEY": f"{number:032X}", "näme": "wörd"}
        packed = number % 5 == 0
        send(
            connection,
            "orders",
            number % 4,
            compress(body, Compression.ZLIB) if packed else body,
            properties,
            born_ms=1_700_000_000_000 + number,
            sys_flag=with_compression(0, Compression.ZLIB) if packed else 0,
        )
    for start in range(0, 30, 10):
        items = [
            BatchItem(3, b"item %d" % number, encode_properties({"TAGS": "batch", "UNIQ_KEY": f"B{number}"}))
            for number in range(start, start + 10)
        ]
        send_batch(connection, "bills", 0, items, born_ms=1_700_000_000_000)
    for level, body in ((1, b"soon"), (18, b"late")):
        send(connection, "later", 0, body, {"DELAY": str(level), "TAGS": "slow"}, born_ms=1_700_000_000_000)
