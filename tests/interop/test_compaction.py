"""A file of a compacted topic of Apache's is printed by `steelyard store cat`."""

import json
from pathlib import Path

import pytest

from steelyard import Admin, Message, Producer
from steelyard.cli.main import main
from tests.interop.jars import NotReady, server_class_path
from tests.interop.servers import apache
from tests.live.clusters import until

RELEASE = "5.5.0"
COUNT = 20

pytestmark = pytest.mark.timeout(180)


def test_a_file_of_a_compacted_topic_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        server_class_path(RELEASE)
    except NotReady as problem:
        pytest.skip(str(problem))

    def files() -> list[Path]:
        return [path for path in tmp_path.rglob("compactionLog/latest-price/*/*") if path.is_file()]

    def printed() -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for path in files():
            assert main(["store", "cat", str(path), "--json"]) == 0
            found += map(json.loads, capsys.readouterr().out.splitlines())
        return found

    sizes = {
        "mappedFileSizeCommitLog": 1 << 20,
        "compactionMappedFileSize": 1 << 20,
        "compactionCqMappedFileSize": 1 << 16,
    }
    with apache(RELEASE, tmp_path, **sizes) as broker:
        namesrv = f"127.0.0.1:{broker.name_port}"
        with Admin(namesrv) as admin, Producer(namesrv) as producer:
            until(admin.brokers.list, "the broker is registered")
            admin.topics.create("latest-price", 1, attributes={"cleanup.policy": "COMPACTION"})
            for number in range(COUNT):
                producer.send(Message("latest-price", b"%d" % number, keys=f"sku-{number % 3}"))
            until(lambda: len(printed()) == COUNT, "all are in the file of the topic")
        found = printed()
    assert [each["body"] for each in found] == [str(number) for number in range(COUNT)]
    assert {each["topic"] for each in found} == {"latest-price"}
