import io
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.cli.main import main
from steelyard.model import tag_hash
from steelyard.serve.disks import RealDisk
from steelyard.store.json_documents import TOPICS, save_document
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.store.tags_code import SCHEDULE_TOPIC
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigTable
from steelyard.wire.compression import with_compression
from steelyard.wire.record import BLANK_MAGIC, peek_record
from steelyard.wire.sysflag import Compression
from tests import forkserver
from tests.cli.store_fixtures import BODIES, COUNT, FIRST, HOST, INDEX, SEGMENT, SUMS, add, filled, one_damage, verified


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("closed") / "store")


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("crashed") / "store", close=False, save_first=200)


@pytest.fixture
def copy(closed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(closed, tmp_path / "copy"))


@pytest.fixture
def crashed_copy(crashed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(crashed, tmp_path / "crashed"))


def change(root: Path, path: str, at: int, new: bytes) -> None:
    with (root / path).open("r+b") as file:
        file.seek(at)
        file.write(new)


def places(root: Path, path: str = FIRST) -> list[tuple[int, int]]:
    """Where the records of a log file begin, and how long they are; the blank is left out."""
    data = (root / path).read_bytes()
    found, at = [], 0
    while (start := peek_record(data, at)) is not None and start.size and start.magic != BLANK_MAGIC:
        found.append((at, start.size))
        at += start.size
    return found


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    assert main(["store", "cat", *arguments, "--json"]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


# -- verify -----------------------------------------------------------------------------------------------------------


def test_a_store_that_was_closed_is_sound_and_summed_up(capsys: pytest.CaptureFixture[str], closed: Path) -> None:
    answer = verified(capsys, closed, 0)
    assert answer["findings"] == []
    assert answer["state"] == "closed cleanly"
    assert (answer["messages"], answer["topics"], answer["queues"]) == (COUNT, 2, 4)
    assert answer["segments"] > 1
    assert answer["bytes"] > SEGMENT
    assert main(["store", "verify", str(closed)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 2
    assert "300 messages, 2 topics, 4 queues; closed cleanly" in out[0]
    assert out[1] == "sound"


def test_looking_changes_nothing(capsys: pytest.CaptureFixture[str], crashed_copy: Path) -> None:
    before = snapshot(crashed_copy)
    verified(capsys, crashed_copy, 0)
    printed(capsys, str(crashed_copy))
    assert snapshot(crashed_copy) == before


def test_a_store_in_use_can_be_inspected(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = Store.open(RealDisk(tmp_path / "used"), StoreOptions(segment_bytes=SEGMENT))
    for number in range(10):
        add(store, number)
    answer = verified(capsys, tmp_path / "used", 0)
    assert answer["messages"] == 10
    assert answer["state"].startswith("not closed")
    assert len(printed(capsys, str(tmp_path / "used"))) == 10
    store.close(1)


def test_messages_without_entry_are_usual_after_a_crash(capsys: pytest.CaptureFixture[str], crashed: Path) -> None:
    (note,) = verified(capsys, crashed, 0)["findings"]
    assert (note["is_damage"], note["lost"]) == (False, 0)
    assert note["what"] == "100 messages of 4 queues without entry, which the next start adds"


def test_a_torn_tail_that_nobody_knew_of_is_a_note(capsys: pytest.CaptureFixture[str], crashed_copy: Path) -> None:
    last = max(path.name for path in (crashed_copy / "commitlog").iterdir())
    at, size = places(crashed_copy, f"commitlog/{last}")[-1]
    data = (crashed_copy / f"commitlog/{last}").read_bytes()
    change(crashed_copy, f"commitlog/{last}", at + size, data[at : at + size // 2])
    notes = verified(capsys, crashed_copy, 0)["findings"]
    assert notes[0] == {
        "path": f"commitlog/{last}",
        "position": int(last) + at + size,
        "size": len(data[at : at + size // 2].rstrip(b"\0")),
        "what": "an unfinished write, which the next start truncates",
        "lost": 0,
        "is_damage": False,
    }


def test_a_torn_tail_with_messages_that_something_knew_is_damage(
    capsys: pytest.CaptureFixture[str], crashed_copy: Path, copy: Path
) -> None:
    for root, knows in ((crashed_copy, "steelyard/sums"), (copy, "consumequeue")):
        last = max(path.name for path in (root / "commitlog").iterdir())
        path = f"commitlog/{last}"
        (at, _), (_, size) = places(root, path)[-2:]
        change(root, path, at + 20, bytes((root / path).stat().st_size - at - 20))
        if knows == "consumequeue":
            shutil.rmtree(root / "steelyard/sums")
        finding = one_damage(capsys, root)
        assert (finding["path"], finding["position"], finding["lost"]) == (path, int(last) + at, 2)
        assert size > 0


def test_a_clean_close_vouches_for_the_end_of_the_log(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    shutil.rmtree(copy / "steelyard/sums")
    shutil.rmtree(copy / "consumequeue")
    (copy / "abort").unlink(missing_ok=True)
    last = max(path.name for path in (copy / "commitlog").iterdir())
    at, size = places(copy, f"commitlog/{last}")[-1]
    change(copy, f"commitlog/{last}", at, bytes(size))
    first = verified(capsys, copy, 1)["findings"][0]
    assert first["what"] == "messages are gone from the end of the log"
    assert first["position"] == int(last) + at


@pytest.mark.parametrize("byte", [0, 5, 9, 25, 60, 90, 100, -1])
def test_a_damaged_record_is_reported_with_place_and_loss(
    capsys: pytest.CaptureFixture[str], copy: Path, byte: int
) -> None:
    at, size = places(copy)[20]
    where = at + byte if byte >= 0 else at + size - 1
    change(copy, FIRST, where, bytes(((copy / FIRST).read_bytes()[where] ^ 4,)))
    finding = one_damage(capsys, copy)
    assert {**finding, "what": ""} == {
        "path": FIRST,
        "position": at,
        "size": size,
        "what": "",
        "lost": 1,
        "is_damage": True,
    }
    assert main(["store", "verify", str(copy)]) == 1
    line = capsys.readouterr().out.splitlines()[0]
    assert line == f"damage: {FIRST}, position {at}, {size} bytes: no message, 1 message lost"


def test_the_queues_numbers_show_the_loss_where_no_index_does(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    (copy / "abort").touch()
    shutil.rmtree(copy / "consumequeue")
    (start, _), (_, _), (last, size) = places(copy)[20:23]
    change(copy, FIRST, start, bytes(last + size - start))
    finding = one_damage(capsys, copy)
    assert (finding["position"], finding["size"], finding["lost"]) == (start, last + size - start, 3)


def test_a_missing_log_file_is_reported(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    (copy / f"commitlog/{SEGMENT:020d}").unlink()
    findings = [each for each in verified(capsys, copy, 1)["findings"] if each["is_damage"]]
    assert findings[0]["what"] == "is missing"
    assert (findings[0]["position"], findings[0]["size"]) == (SEGMENT, SEGMENT)
    assert findings[0]["lost"] > 90
    assert len(findings) == 1


def test_an_entry_that_points_elsewhere_is_reported(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    change(copy, INDEX, 20 * 5 + 7, b"\x77")
    finding = one_damage(capsys, copy)
    assert (finding["path"], finding["position"], finding["size"]) == ("consumequeue/orders/1", 100, 20)
    assert "elsewhere" in finding["what"]


def test_an_entry_with_another_tag_is_reported(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    change(copy, INDEX, 20 * 5 + 19, b"\x77")
    assert one_damage(capsys, copy)["position"] == 100


def test_messages_without_entry_are_damage_after_a_clean_close(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    entries = len((copy / INDEX).read_bytes().rstrip(b"\0")) // 20
    change(copy, INDEX, 20 * (entries - 2), bytes(60))
    finding = one_damage(capsys, copy)
    assert finding["position"] == 20 * (entries - 2)
    assert "without entry" in finding["what"]


def test_an_entry_of_no_message_is_reported(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    entries = len((copy / INDEX).read_bytes().rstrip(b"\0")) // 20 + 1
    entry = (copy / INDEX).read_bytes()[20 * 4 : 20 * 5]
    change(copy, INDEX, 20 * entries, entry)
    finding = one_damage(capsys, copy)
    assert "point at no message" in finding["what"]


def test_files_beside_the_log_are_checked(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    change(copy, SUMS, 16 * 3 + 9, b"\x01\x02")
    assert one_damage(capsys, copy)["path"] == SUMS
    shutil.rmtree(copy / "steelyard/sums")
    for path in (
        "config/topics.json",
        "config/consumerOffset.json",
        "config/consumerOffset.json.bak",
        f"steelyard/keys/{0:020d}",
    ):
        whole = (copy / path).read_bytes()
        change(copy, path, 20, b"\x01")
        assert one_damage(capsys, copy)["path"] == path
        (copy / path).write_bytes(whole)
    verified(capsys, copy, 0)


def test_a_topic_that_was_removed_needs_no_index(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    shutil.rmtree(copy / "consumequeue/bills")
    save_document(RealDisk(copy), TOPICS, TopicConfigTable(topics={"orders": TopicConfig(name="orders")}))
    verified(capsys, copy, 0)


def test_delayed_messages_are_due_when_their_broker_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = Store.open(RealDisk(tmp_path), StoreOptions(segment_bytes=SEGMENT))
    for mark in (None, 1_234, tag_hash("late")):
        properties = b"DELAY\x013\x02TAGS\x01late\x02"
        store.append(SCHEDULE_TOPIC, 2, b"x", properties, born_ms=1, born_host=HOST, stored_ms=1_000, tags_code=mark)
    store.close(1)
    verified(capsys, tmp_path, 0)


@pytest.mark.parametrize("verb", ["verify", "cat"])
def test_what_is_no_store_is_refused_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.jpg").touch()
    (tmp_path / "nothing").mkdir()
    (tmp_path / "other/commitlog").mkdir(parents=True)
    (tmp_path / "other/commitlog/notes.txt").touch()
    for name in ("photos", "nothing", "gone", "other", "photos/cat.jpg"):
        assert main(["store", verb, str(tmp_path / name)]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("steelyard: ")
        assert output.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nothing", "other", "photos"]


@pytest.fixture(scope="module")
def scratch(closed: Path) -> Path:
    return Path(shutil.copytree(closed, closed.parent / "scratch"))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, SEGMENT - 1), st.binary(min_size=1, max_size=40)), max_size=4))
def test_any_bytes_in_the_log_give_a_verdict_and_the_rest_of_the_messages(
    capsys: pytest.CaptureFixture[str], closed: Path, scratch: Path, changes: list[tuple[int, bytes]]
) -> None:
    whole = (closed / FIRST).read_bytes()
    (scratch / FIRST).write_bytes(whole)
    for at, new in changes:
        change(scratch, FIRST, at, new[: SEGMENT - at])
    now = (scratch / FIRST).read_bytes()
    hit = sum(whole[at : at + size] != now[at : at + size] for at, size in places(closed))
    capsys.readouterr()
    code = main(["store", "verify", str(scratch), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["messages"] == COUNT - hit
    # The blank that ends the file is no message, and yet its damage is told.
    assert (code == 1) is bool(answer["findings"])
    assert code == 1 or not hit
    assert sum(each["lost"] or 0 for each in answer["findings"]) == hit
    assert len(printed(capsys, str(scratch), code=code)) == COUNT - hit


# -- cat --------------------------------------------------------------------------------------------------------------


def test_messages_come_in_the_order_of_the_log(capsys: pytest.CaptureFixture[str], closed: Path) -> None:
    messages = printed(capsys, str(closed))
    assert [each["born_ms"] - 1_700_000_000_000 for each in messages] == list(range(COUNT))
    assert [each["position"] for each in messages] == sorted(each["position"] for each in messages)
    for number, each in enumerate(messages):
        raw = b64decode(each["body"]) if each["body_encoding"] == "base64" else each["body"].encode()
        assert raw == BODIES.get(number, b"body %d" % number)
        assert each["keys"] == [f"k{number}", "both"]
    assert messages[1] | {"position": 0, "message_id": ""} == {
        "topic": "orders",
        "queue_id": 1,
        "offset": 0,
        "position": 0,
        "born_ms": 1_700_000_000_001,
        "stored_ms": 1_700_000_000_006,
        "born_host": "127.0.0.1:4660",
        "store_host": "127.0.0.1:10911",
        "message_id": "",
        "tags": "T1",
        "keys": ["k1", "both"],
        "properties": {"TAGS": "T1", "KEYS": "k1 both"},
        "flag": 0,
        "sys_flag": 0,
        "reconsume_times": 0,
        "body": "body 1",
        "body_encoding": "utf-8",
    }


def test_one_queue_is_read_from_an_offset_on_and_without_any_index(
    capsys: pytest.CaptureFixture[str], copy: Path
) -> None:
    shutil.rmtree(copy / "consumequeue")
    asked = (str(copy), "--topic", "orders", "--queue", "1")
    assert [each["offset"] for each in printed(capsys, *asked)] == list(range(100))
    assert [each["offset"] for each in printed(capsys, *asked, "--from", "97")] == [97, 98, 99]
    assert {each["queue_id"] for each in printed(capsys, str(copy), "--topic", "bills")} == {0, 1}
    assert printed(capsys, str(copy), "--topic", "other") == []


def test_people_read_a_line_for_each_message(capsys: pytest.CaptureFixture[str], closed: Path) -> None:
    assert main(["store", "cat", str(closed)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == COUNT
    assert lines[1] == "orders:1:0 2023-11-14T22:13:20.006Z k1,both T1 body 1"
    assert lines[7].endswith("T1 ff001b5b324a (6 bytes)")
    assert lines[8].endswith("T0 Grüße\\n\\x1b[2J")


def test_damaged_places_are_reported_and_stepped_over(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    at, _ = places(copy)[20]
    change(copy, FIRST, at + 90, b"\x77")
    assert main(["store", "cat", str(copy)]) == 1
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == COUNT - 1
    assert output.err.count("\n") == 1
    assert output.err.startswith(f"{FIRST}, position {at}: ")


def test_a_body_that_cannot_be_opened_is_reported_and_stepped_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    store = Store.open(RealDisk(tmp_path), StoreOptions(segment_bytes=SEGMENT))
    flag = with_compression(0, Compression.ZLIB)
    store.append(b"t", 0, b"no stream", b"", sys_flag=flag, born_ms=1, born_host=HOST, stored_ms=1)
    store.append(b"t", 0, b"fine", b"", born_ms=1, born_host=HOST, stored_ms=1)
    store.close(1)
    (message,) = printed(capsys, str(tmp_path), code=1)
    assert message["body"] == "fine"


def test_a_question_that_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], closed: Path) -> None:
    for asked in (["--queue", "1"], ["--topic", "orders", "--from", "3"], ["--queue", "x"]):
        assert main(["store", "cat", str(closed), *asked]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.process
def test_a_reader_who_has_seen_enough_is_no_failure(closed: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as out:
        command = [*forkserver.python(), "-m", "steelyard", "store", "cat", str(closed), "--json"]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ticks() -> Iterator[float]:
    return iter(float(number) for number in range(1_000_000))


def test_progress_is_reported_to_a_terminal_and_wiped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], closed: Path
) -> None:
    terminal, clock = Terminal(), ticks()
    monkeypatch.setattr("steelyard.cli.shared.terminal.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["store", "verify", str(closed)]) == 0
    assert "MiB" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")
    assert "MiB" not in capsys.readouterr().out


# -- one file ---------------------------------------------------------------------------------------------------------


def test_one_file_of_a_log_is_printed_by_itself(capsys: pytest.CaptureFixture[str], copy: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in (copy / "commitlog").iterdir())
    by_file = [len(printed(capsys, str(copy / "commitlog" / name))) for name in names]
    assert sum(by_file) == COUNT
    assert by_file[1] > 0
    # Wherever it was put, and whatever it is called there: a compacted topic of Apache's has files of this kind too.
    for name in (names[1], "compacted.bin"):
        (tmp_path / name).write_bytes((copy / "commitlog" / names[1]).read_bytes())
        assert len(printed(capsys, str(tmp_path / name))) == by_file[1]
    orders = printed(capsys, str(tmp_path / "compacted.bin"), "--topic", "orders", "--queue", "1")
    assert {(each["topic"], each["queue_id"]) for each in orders} == {("orders", 1)}


def test_damage_in_one_file_is_reported(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    at, _ = places(copy)[3]
    change(copy, FIRST, at + 10, b"\xff" * 8)
    whole = len(places(copy))
    assert main(["store", "cat", str(copy / FIRST)]) == 1
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == whole - 1
    assert output.err.startswith(f"{0:020d}, position {at}: ")


def test_a_file_that_was_never_written_has_no_messages(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}").write_bytes(bytes(4096))
    assert printed(capsys, str(tmp_path / f"{0:020d}")) == []


def test_a_pattern_prints_bodies_as_they_are(capfdbinary: pytest.CaptureFixture[bytes], closed: Path) -> None:
    assert main(["store", "cat", str(closed / FIRST), "--topic", "orders", "--format", r"%o=%s\0"]) == 0
    assert b"\xff\x00\x1b[2J" in capfdbinary.readouterr().out
