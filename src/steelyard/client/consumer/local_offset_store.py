"""Local offset store: the committed offsets of a broadcasting member, in a file of its own.

The file is written only when something changed: whole, under another name, synced, and then renamed over the old one,
which stays as a backup. So after any crash one of the two can be read. One process at a time has the file; another one
is refused, since each would overwrite the other's offsets.

It lies in the user's state directory (XDG_STATE_HOME), unless another one is named. What ``~/.steelyard`` holds, where
it was before, is read as long as there is no file.
"""

import fcntl
import logging
import os
import re
from collections import UserDict
from pathlib import Path

import msgspec

from steelyard.errors import ConfigurationError, DiskFailed
from steelyard.model import Queue

_OFFSETS_DIR_ENVIRONMENT = "STEELYARD_OFFSETS"
"""The variable that names the directory."""

_UNFIT = re.compile(r"[^A-Za-z0-9._-]")
_log = logging.getLogger("steelyard.client")


class _Content(msgspec.Struct):
    """The file. An entry is topic, broker, number of the queue, offset."""

    offsets: list[tuple[str, str, int, int]]
    v: int = 1


def offsets_path(group: str, name: str | None = None, directory: str | Path | None = None) -> Path:
    """Return the path of a member's offset file; members on one machine have different names.

    >>> str(offsets_path("eu%billing", "till-1", "/var/lib/shop"))
    '/var/lib/shop/eu-billing-till-1.json'
    """
    parts = [group] if name is None else [group, name]
    file = f"{'-'.join(_UNFIT.sub('-', part) for part in parts)}.json"
    named = directory or os.environ.get(_OFFSETS_DIR_ENVIRONMENT)
    if named:
        return Path(named) / file
    state = os.environ.get("XDG_STATE_HOME", "")
    # A relative path is to be ignored, says the specification.
    return (Path(state) if state.startswith("/") else _home() / ".local" / "state") / "steelyard" / "offsets" / file


def open_offset_store(group: str, name: str | None = None, directory: str | Path | None = None) -> "LocalOffsetStore":
    """Open the offset file of a member, or what is in the former directory if there is none."""
    path = offsets_path(group, name, directory)
    if directory or os.environ.get(_OFFSETS_DIR_ENVIRONMENT):
        return LocalOffsetStore(path)
    return LocalOffsetStore(path, former=_home() / ".steelyard" / "offsets" / path.name)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigurationError(
            "this user has no home directory to keep offsets in",
            next_step=f"give one for them with offsets_dir, or {_OFFSETS_DIR_ENVIRONMENT}",
        ) from None


class LocalOffsetStore(UserDict[Queue, int]):
    """Offsets by queue. `save` writes them if they changed; `close` releases the file."""

    def __init__(self, path: Path, *, former: Path | None = None) -> None:
        super().__init__()
        self.path, self._former = path, former
        self.is_changed = False
        """Whether there is something to write."""
        self._lock = _lock_file(path)
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def __setitem__(self, queue: Queue, offset: int) -> None:
        if self.data.get(queue) != offset:
            self.data[queue] = offset
            self.is_changed = True

    def __delitem__(self, queue: Queue) -> None:
        del self.data[queue]
        self.is_changed = True

    def content(self) -> bytes:
        """Return the content of the file, and count it as written."""
        self.is_changed = False
        entries = [(*queue, offset) for queue, offset in sorted(self.data.items())]
        return msgspec.json.encode(_Content(entries)) + b"\n"

    def write(self, content: bytes) -> None:
        """Replace the file; it may block, and uses nothing but the content."""
        new, backup = self.path.with_suffix(".new"), self.path.with_suffix(".bak")
        try:
            with open(new, "wb", opener=_open_private) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                backup.unlink(missing_ok=True)
                os.link(self.path, backup)
            new.replace(self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            self.is_changed = True
            raise DiskFailed("writing", path=str(self.path), why=str(error)) from None

    def save(self) -> None:
        """Write the file if something changed."""
        if self.is_changed:
            self.write(self.content())

    def close(self) -> None:
        """Release the file to other processes."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _load(self) -> None:
        files = [self.path, self.path.with_suffix(".bak")]
        if self._former is not None and not self.path.exists():
            files += [self._former, self._former.with_suffix(".bak")]
        for path in files:
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise DiskFailed("reading", path=str(path), why=str(error)) from None
            try:
                content = msgspec.json.decode(data, type=_Content)
            except msgspec.MsgspecError as error:
                _log.error("the offsets in %s cannot be read (%s); the last backup is tried", path, error)
                continue
            if path.suffix == ".bak":
                _log.error("the offsets are those of the backup %s: some messages may be redelivered", path)
            elif path == self._former:
                _log.info("the offsets of %s go on in %s", path, self.path)
            self.is_changed = path != self.path
            self.data = {Queue(topic, broker, number): offset for topic, broker, number, offset in content.offsets}
            return
        if self.path.exists():
            raise ConfigurationError(
                f"neither {self.path} nor its backup can be read",
                next_step="remove both, and the member begins where start_from says",
            )


def _lock_file(path: Path) -> int | None:
    try:
        _make_private(path.parent)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DiskFailed("locking", path=str(path), why=str(error)) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise ConfigurationError(
            f"another member keeps its offsets in {path}",
            next_step="give each member on this machine a name of its own: Consumer(…, name='till-1')",
        ) from None
    return lock


def _make_private(folder: Path) -> None:
    # With `parents=True` the mode would be that of the last folder alone.
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(0o700, exist_ok=True)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
