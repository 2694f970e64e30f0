"""`steelyard store index`: what an Apache broker wants of a directory is completed, whoever wrote it."""

from pathlib import Path
from struct import unpack

import pytest

from steelyard.cli.main import main
from steelyard.serve.disks import RealDisk
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from tests.cli.store_fixtures import COUNT, add, filled

_KEYS_EACH = 2


def _entries(root: Path) -> list[int]:
    """Return how many entries each file says that it has."""
    return [_head(path)[-1] - 1 for path in sorted((root / "index").iterdir())]


def _head(path: Path) -> tuple[int, ...]:
    with path.open("rb") as file:
        return unpack(">qqqqii", file.read(40))


@pytest.mark.parametrize("close", [True, False], ids=["closed", "crashed"])
def test_every_key_is_in_the_index_however_often_it_is_completed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, close: bool
) -> None:
    root = filled(tmp_path / "held", close=close)
    if not close:
        root = tmp_path / "copy"
        _copy(tmp_path / "held", root)
    for _ in range(2):
        assert main(["store", "index", str(root)]) == 0
        assert capsys.readouterr().out == f"{root}: the key index is complete\n"
        assert _entries(root) == [COUNT * _KEYS_EACH]
    assert not (root / "abort").exists()
    assert main(["store", "verify", str(root)]) == 0


def _copy(root: Path, copy: Path) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            (copy / path.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
            (copy / path.relative_to(root)).write_bytes(path.read_bytes())


def test_a_directory_in_use_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = Store.open(RealDisk(tmp_path), StoreOptions(segment_bytes=1 << 14))
    try:
        add(store, 0)
        assert main(["store", "index", str(tmp_path)]) == 2
    finally:
        store.close(1)
    assert "is in use" in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


def test_what_is_no_directory_of_a_broker_stays_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["store", "index", str(tmp_path)]) == 2
    assert "has no commitlog" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_files_of_another_size_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = filled(tmp_path)
    (root / "index").mkdir()
    (root / "index" / "20231114221320000").write_bytes(bytes(4000))
    assert main(["store", "index", str(root)]) == 2
    assert "unusual size" in capsys.readouterr().err
