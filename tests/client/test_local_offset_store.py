"""The offsets of a broadcasting member survive whatever happens to their file, and have one owner."""

import logging
import os
from pathlib import Path

import pytest

from steelyard.client.consumer.local_offset_store import LocalOffsetStore, offsets_path, open_offset_store
from steelyard.errors import ConfigurationError, DiskFailed
from steelyard.model import Queue

_QUEUES = [Queue("orders", "broker-a", number) for number in range(3)]


def _kept(path: Path) -> dict[Queue, int]:
    offsets = LocalOffsetStore(path)
    try:
        return dict(offsets)
    finally:
        offsets.close()


def _keep(path: Path, *offsets: int) -> None:
    kept = LocalOffsetStore(path)
    kept.update(zip(_QUEUES, offsets, strict=False))
    kept.save()
    kept.close()


def test_what_was_saved_is_there_again(tmp_path: Path) -> None:
    _keep(tmp_path / "deep" / "o.json", 7, 8)
    assert _kept(tmp_path / "deep" / "o.json") == {_QUEUES[0]: 7, _QUEUES[1]: 8}


def test_the_folders_that_are_made_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _keep(tmp_path / "shop" / "offsets" / "o.json", 7)
    finally:
        os.umask(before)
    for place in (tmp_path / "shop").rglob("*"):
        assert place.stat().st_mode & 0o777 == (0o700 if place.is_dir() else 0o600), place
    assert (tmp_path / "shop").stat().st_mode & 0o777 == 0o700


def test_the_file_is_written_only_when_something_changed(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    offsets = LocalOffsetStore(path)
    offsets.save()
    assert not path.exists()
    offsets[_QUEUES[0]] = 7
    offsets.save()
    written = path.stat().st_mtime_ns, path.stat().st_ino
    offsets[_QUEUES[0]] = 7
    assert not offsets.is_changed
    offsets.save()
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == written
    offsets.close()


@pytest.mark.parametrize("damage", [b"", b"{", b'{"offsets":[["a"]]}', b"\x00\xff"])
def test_a_damaged_file_is_replaced_by_its_backup(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "o.json"
    _keep(path, 7)
    _keep(path, 9)
    path.write_bytes(damage)
    with caplog.at_level(logging.ERROR, "steelyard"):
        assert _kept(path) == {_QUEUES[0]: 7}
    assert "cannot be read" in caplog.text


def test_a_file_that_cannot_be_read_and_has_no_backup_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    path.write_bytes(b"{")
    with pytest.raises(ConfigurationError, match="remove both"):
        LocalOffsetStore(path)
    # And the lock is not kept.
    path.unlink()
    assert _kept(path) == {}


def test_a_write_that_fails_keeps_the_old_file_and_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    _keep(path, 7)
    offsets = LocalOffsetStore(path)
    offsets[_QUEUES[0]] = 9
    (tmp_path / "o.new").mkdir()
    with pytest.raises(DiskFailed):
        offsets.save()
    assert offsets.is_changed
    (tmp_path / "o.new").rmdir()
    offsets.save()
    offsets.close()
    assert _kept(path) == {_QUEUES[0]: 9}


def test_one_member_at_a_time_has_the_file(tmp_path: Path) -> None:
    offsets = LocalOffsetStore(tmp_path / "o.json")
    with pytest.raises(ConfigurationError, match="another member keeps its offsets"):
        LocalOffsetStore(tmp_path / "o.json")
    offsets.close()
    assert _kept(tmp_path / "o.json") == {}


def test_the_directory_can_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEELYARD_OFFSETS", str(tmp_path))
    assert offsets_path("eu%billing") == tmp_path / "eu-billing.json"
    monkeypatch.delenv("STEELYARD_OFFSETS")
    assert offsets_path("billing", "a/b").name == "billing-a-b.json"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be a user whose home is empty."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("STEELYARD_OFFSETS", raising=False)
    return tmp_path


def test_the_file_lies_in_the_users_state_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offsets_path("billing") == home / ".local/state/steelyard/offsets/billing.json"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert offsets_path("billing") == home / ".local/state/steelyard/offsets/billing.json"
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    assert offsets_path("billing") == home / "state/steelyard/offsets/billing.json"
    monkeypatch.setenv("STEELYARD_OFFSETS", str(home / "named"))
    assert offsets_path("billing") == home / "named/billing.json"
    assert offsets_path("billing", directory=home) == home / "billing.json"


def test_the_former_directory_is_read_until_there_is_a_file(home: Path) -> None:
    former = home / ".steelyard" / "offsets" / "billing.json"
    _keep(former, 7)
    for now, later in ((7, 8), (8, 9)):
        offsets = open_offset_store("billing")
        assert dict(offsets) == {_QUEUES[0]: now}
        offsets[_QUEUES[0]] = later
        offsets.save()
        offsets.close()
        _keep(former, 1)
    assert _kept(offsets_path("billing")) == {_QUEUES[0]: 9}


def test_offsets_of_the_former_directory_are_written_even_if_nothing_moved(home: Path) -> None:
    _keep(home / ".steelyard" / "offsets" / "billing.json", 7)
    offsets = open_offset_store("billing")
    offsets.save()
    offsets.close()
    assert _kept(offsets_path("billing")) == {_QUEUES[0]: 7}


def test_a_directory_that_is_named_is_the_only_one(home: Path) -> None:
    _keep(home / ".steelyard" / "offsets" / "billing.json", 7)
    offsets = open_offset_store("billing", directory=home / "named")
    assert dict(offsets) == {}
    offsets.close()


@pytest.mark.usefixtures("home")
def test_a_user_without_a_home_is_asked_for_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(ConfigurationError, match="offsets_dir"):
        open_offset_store("billing")
