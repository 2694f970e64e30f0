"""`steelyard store verify` on directories that are odd: files that are gone, too long, or no files at all."""

import os
from pathlib import Path

import pytest

from steelyard.cli.main import main
from steelyard.serve.disks import RealDisk
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from tests.cli.store_fixtures import COUNT, FIRST, INDEX, SEGMENT, SUMS, add, filled, one_damage, verified


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Give a directory that was closed in order."""
    return filled(tmp_path / "store")


def test_a_last_log_file_that_is_missing_is_reported(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    last = max((copy / "commitlog").iterdir())
    last.unlink()
    finding = one_damage(capsys, copy)
    assert finding["path"] == f"commitlog/{last.name}"
    assert finding["what"].startswith("is missing")
    assert finding["lost"] > 0


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_log_that_is_missing_all_of_it_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, *, is_closed: bool
) -> None:
    root = filled(tmp_path / "store", close=is_closed)
    for file in (root / "commitlog").iterdir():
        file.unlink()
    finding = one_damage(capsys, root)
    assert finding["path"] == FIRST
    assert finding["lost"] == COUNT


@pytest.mark.parametrize("again", [0, 5])
@pytest.mark.parametrize("is_saved", [True, False])
def test_what_was_forgotten_with_its_topic_needs_no_entry(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, again: int, *, is_saved: bool
) -> None:
    store = Store.open(RealDisk(tmp_path), StoreOptions(segment_bytes=SEGMENT))
    for number in range(50):
        add(store, number)
    if is_saved:
        store.save_consume_queues()
    store.delete_topic(b"orders")
    for number in range(again):
        add(store, 50 + number)
    store.close(1_700_000_100_000)
    answer = verified(capsys, tmp_path, 0)
    assert answer["findings"] == []
    # The index itself is still held against the log: what came after must have its entries.
    if again:
        index = min((tmp_path / "consumequeue/orders/1").iterdir())
        entries = index.read_bytes()
        end = (len(entries.rstrip(b"\0")) - 1) // 20 * 20
        index.write_bytes(entries[:end] + bytes(20) + entries[end + 20 :])
        assert verified(capsys, tmp_path, 1)["findings"]


def test_garbage_behind_one_log_file_is_reported(capsys: pytest.CaptureFixture[str], copy: Path) -> None:
    with (copy / FIRST).open("ab") as log:
        log.write(b"garbage")
    finding = one_damage(capsys, copy)
    assert finding["what"] == f"the file should have {SEGMENT} bytes and has {SEGMENT + 7}"
    assert verified(capsys, copy, 1)["messages"] == COUNT


@pytest.mark.parametrize("path", [f"commitlog/{1 << 30:020d}", INDEX, SUMS, "config/topics.json"])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_what_is_no_file_is_refused_and_not_waited_for(
    capsys: pytest.CaptureFixture[str], copy: Path, path: str, kind: str
) -> None:
    (copy / path).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(copy / path)
    else:
        (copy / path).symlink_to("/dev/zero")
    assert main(["store", "verify", str(copy)]) == 2
    assert f"{path} failed (is not a regular file)" in capsys.readouterr().err


@pytest.mark.parametrize("path", [FIRST, INDEX, SUMS, "config/topics.json", f"steelyard/keys/{0:020d}"])
def test_a_file_that_is_said_to_be_enormous_gets_a_verdict(
    capsys: pytest.CaptureFixture[str], copy: Path, path: str
) -> None:
    os.truncate(copy / path, 1 << 42)
    answer = verified(capsys, copy, 0 if path in (INDEX, SUMS) else 1)
    assert answer["messages"] == COUNT


@pytest.mark.parametrize("verb", ["verify", "index", "cat"])
def test_the_directory_above_points_to_those_of_brokers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str
) -> None:
    above = tmp_path / "steelyard-data"
    for name in ("broker-0", "broker-1"):
        filled(above / name)
    assert main(["store", verb, str(above)]) == 2
    assert f"those of brokers are in it: {above}/broker-0, {above}/broker-1" in capsys.readouterr().err
