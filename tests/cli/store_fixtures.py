"""A broker's directory for tests of `steelyard store`, and what the command says of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli.main import main
from steelyard.serve.disks import RealDisk
from steelyard.store.json_documents import GROUP_OFFSETS, TOPICS, save_document
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.wire.bodies.offsets import ConsumerOffsetTable
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable
from steelyard.wire.compression import compress, with_compression
from steelyard.wire.json_body import ById
from steelyard.wire.sysflag import Compression

HOST = bytes.fromhex("7f00000100001234")
COUNT = 300
SEGMENT = 1 << 14
FIRST = f"commitlog/{0:020d}"
INDEX = f"consumequeue/orders/1/{0:020d}"
SUMS = f"steelyard/sums/{0:020d}"
BODIES = {7: b"\xff\x00\x1b[2J", 8: "Grüße\n\x1b[2J".encode()}


def add(store: Store, number: int) -> None:
    body = BODIES.get(number, b"body %d" % number)
    topic = b"bills" if number % 3 == 0 else b"orders"
    properties = b"TAGS\x01T%d\x02KEYS\x01k%d both\x02" % (number % 2, number)
    packed = number % 5 == 0
    store.append(
        topic,
        number % 2,
        compress(body, Compression.ZLIB) if packed else body,
        properties,
        sys_flag=with_compression(0, Compression.ZLIB) if packed else 0,
        born_ms=1_700_000_000_000 + number,
        born_host=HOST,
        stored_ms=1_700_000_000_005 + number,
    )
    store.flush()


def filled(root: Path, *, close: bool = True, save_first: int = 0) -> Path:
    disk = RealDisk(root)
    store = Store.open(disk, StoreOptions(segment_bytes=SEGMENT))
    for number in range(COUNT):
        add(store, number)
        if number + 1 == save_first:
            store.save_consume_queues()
    disk.mkdir("config")
    save_document(disk, TOPICS, TopicConfigTable(topics={name: TopicConfig(name=name) for name in ("orders", "bills")}))
    save_document(disk, GROUP_OFFSETS, ConsumerOffsetTable(offsets={"orders@billing": ById({0: 3})}))
    save_document(disk, GROUP_OFFSETS, ConsumerOffsetTable(offsets={"orders@billing": ById({0: 4})}))
    if close:
        store.lookup.build_key_index()
        store.close(1_700_000_100_000)
    return root


def verified(capsys: pytest.CaptureFixture[str], root: Path, code: int) -> dict[str, Any]:
    assert main(["store", "verify", str(root), "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["sound"] is (code == 0)
    return answer


def one_damage(capsys: pytest.CaptureFixture[str], root: Path) -> dict[str, Any]:
    (finding,) = [each for each in verified(capsys, root, 1)["findings"] if each["is_damage"]]
    assert isinstance(finding, dict)
    return finding
