"""Sample messages for tests of the store: messages of all kinds, and everything that a directory holds."""

import os
from dataclasses import dataclass, field
from random import Random

from steelyard.errors import DiskFailed
from steelyard.store.disk import Disk
from steelyard.store.options import StoreOptions
from steelyard.store.store import AppendResult, Store
from steelyard.wire.record import decode_record, pack_record

Queue = tuple[bytes, int]
Book = dict[Queue, dict[int, bytes]]
"""Messages by queue and offset: the bytes of their records."""

IPV4 = bytes((10, 0, 0, 7, 0, 0, 0x2A, 0x9F))
IPV6 = bytes(range(16)) + bytes((0, 0, 0x2A, 0x9F))
LONG_TOPIC = b"l" * 130
QUEUES: tuple[Queue, ...] = (
    (b"orders", 0),
    (b"orders", 1),
    (b"bills", 0),
    (LONG_TOPIC, 3),
    (b"SCHEDULE_TOPIC_XXXX", 2),
)
PAGE = 512
OPTIONS = StoreOptions(segment_bytes=4096, keep_ms=None)


def rounds(usual: int, long: int) -> int:
    """Return how often a test does something: STEELYARD_STORE=long asks for the long version."""
    return long if os.environ.get("STEELYARD_STORE") == "long" else usual


@dataclass
class Message:
    """What a producer sends, and where to."""

    queue: Queue
    body: bytes
    properties: bytes = b""
    born_host: bytes = IPV4
    stored_ms: int = 1_000

    @classmethod
    def drawn(cls, random: Random, stored_ms: int = 1_000, most_bytes: int = 300) -> "Message":
        """Draw a message of any kind."""
        body = random.randbytes(random.randrange(most_bytes))
        tag, key = random.randrange(3), random.randrange(8)
        properties = random.choice((b"", b"TAGS\x01t%d\x02" % tag, b"KEYS\x01k%d k9\x02TAGS\x01t%d\x02" % (key, tag)))
        return cls(random.choice(QUEUES), body, properties, random.choice((IPV4, IPV4, IPV6)), stored_ms)


@dataclass
class MessageWriter:
    """Appends messages, and remembers what their records must be."""

    random: Random
    now_ms: int = 1_000
    most_bytes: int = 300
    reported: dict[tuple[Queue, int], bytes] = field(default_factory=dict)

    def append(self, store: Store) -> tuple[Queue, AppendResult, bytes]:
        """Append a message of any kind and return where it went, and its record."""
        self.now_ms += self.random.randrange(3)
        message = Message.drawn(self.random, self.now_ms, self.most_bytes)
        done, record = append(store, message)
        return message.queue, done, record

    def fill(self, store: Store, count: int, book: Book) -> None:
        """Append some messages, flush now and then, and write them down."""
        for _ in range(count):
            queue, done, record = self.append(store)
            book.setdefault(queue, {})[done.offset] = record
            if self.random.random() < 0.4:
                assert store.flush().error is None
        assert store.flush().error is None


def append(store: Store, message: Message) -> tuple[AppendResult, bytes]:
    """Append one message, and return where it went and what its record must be."""
    topic, queue_id = message.queue
    host = OPTIONS.store_host
    done = store.append(
        topic,
        queue_id,
        message.body,
        message.properties,
        born_ms=7,
        born_host=message.born_host,
        stored_ms=message.stored_ms,
    )
    record = pack_record(
        topic,
        queue_id,
        done.offset,
        done.position,
        message.body,
        message.properties,
        born_ms=7,
        born_host=message.born_host,
        stored_ms=message.stored_ms,
        store_host=host,
    )
    assert len(record) == done.size
    return done, record


def opened(disk: Disk, options: StoreOptions = OPTIONS) -> Store:
    """Open a directory with small files."""
    return Store.open(disk, options)


def sync(store: Store) -> bool:
    """Make all that is flushed durable; False if that failed."""
    job = store.begin_sync()
    job.run()
    store.end_sync(job)
    return job.error is None


def everything(store: Store) -> Book:
    """Read every queue from its lowest offset to its highest, as a consumer would, and check that all is consistent."""
    book: Book = {}
    for queue in store.queues():
        low, high = store.bounds(*queue)
        records: dict[int, bytes] = {}
        offset = 0
        while offset < high:
            found = store.read(*queue, offset, max_messages=5, max_bytes=2_000)
            assert (found.min_offset, found.max_offset) == (low, high)
            assert found.next_offset > offset or found.count, (queue, offset, found)
            data = found.joined()
            assert len(data) == found.size
            at = count = 0
            while at < len(data):
                record = decode_record(data, at, check_crc=True)
                assert (record.topic, record.queue_id) == queue
                assert max(offset, low) <= record.offset < found.next_offset
                assert record.offset not in records
                records[record.offset] = data[at : at + record.size]
                at += record.size
                count += 1
            assert count == found.count
            offset = found.next_offset
        if records:
            book[queue] = records
    return book


def files(disk: Disk, folder: str = "") -> dict[str, bytes]:
    """Return the content of every file of a directory by its path."""
    found: dict[str, bytes] = {}
    for name in disk.names(folder):
        path = f"{folder}/{name}" if folder else name
        try:
            found[path] = disk.read(path) or b""
        except DiskFailed:
            found |= files(disk, path)
    return found
