"""How a batch's files become part of a directory of Parquet: each row once, for every reader, whatever is killed when.

Spark's own file sink writes files in place and keeps a list of those that count. Readers that do not know the list
(DuckDB, pyarrow, `cat`) see rows of a killed batch twice, and files that end in the middle. Here a file in the
directory counts because it is there:

1. The batch is written aside, under the state's ``staged``. Killed here: what lies there is removed and written anew,
   to another place, since the killed run's Java may still be writing for a moment.
2. It is *sealed*: one small file says which staged file becomes which file of the directory. From now on the batch is
   never written again.
3. The staged files are moved to their places, each whole. Killed here: the rest is moved by the next run.

So a file that was published stays as it is, and a batch that Spark runs again after a crash is finished and not
repeated. Batches are named by Spark's own numbers, which begin anew with a new checkpoint: a directory belongs to the
state that it began with, and is refused with any other (`claim`). A small file in it says so, whose name begins with
``_`` as those do that readers of Parquet pass over.

The state must be beside the directory (`check_beside`): readers take whatever ends in ``.parquet`` below it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from steelyard.errors import ConfigurationError, JobFailed
from steelyard.pipelines.files import Files, is_one_disk

__all__ = ["Publishing", "Seal", "check_beside"]

_PARQUET = ".parquet"
_BATCH = "batch-"
_OWNER = "_checkpoint.txt"
_KEPT_SEALS = 2
"""Spark runs no batch again but the last one; one more is kept for whoever looks."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What is left to do once it is written: remove some files of the directory, then move staged ones there."""

    staged: str
    """Where the files lie that are moved."""
    moves: dict[str, str]
    """From a staged file to its place in the directory."""
    removes: tuple[str, ...] = ()

    def text(self) -> str:
        """Return it as it is kept."""
        return json.dumps({"staged": self.staged, "removes": self.removes, "moves": self.moves})

    @classmethod
    def of(cls, text: str, path: str) -> "Seal":
        """Read what was kept."""
        try:
            kept = json.loads(text)
            moves = {str(old): str(new) for old, new in kept["moves"].items()}
            return cls(str(kept["staged"]), moves, tuple(map(str, kept["removes"])))
        except (ValueError, LookupError, AttributeError, TypeError):
            raise JobFailed(f"{path} is damaged", next_step="give another --checkpoint and another directory") from None


class Publishing:
    """One directory, and the state that belongs to it. Only one process at a time may have it."""

    def __init__(self, files: Files, directory: str, state: str) -> None:
        self.files, self.directory, self._state = files, directory, state

    def claim(self) -> None:
        """Take the directory, and finish what a killed run had begun; raises if it is another state's."""
        owner = f"{self._state}/directory.txt"
        written = self.files.read(owner)
        if written is None:
            if any(name.endswith(_PARQUET) for name in self.files.sizes(self.directory)):
                raise ConfigurationError(
                    f"{self.directory} has Parquet files already, and {self._state} does not know them",
                    next_step="give the --checkpoint that they were written with, or another directory",
                )
        elif written != self.directory:
            raise ConfigurationError(
                f"{self._state} is the checkpoint of {written}, and not of {self.directory}",
                next_step="give another --checkpoint",
            )
        self._mark()
        if written is None:
            self.files.write(owner, self.directory)
        for name in self._sealed():
            self._finish(name)
            if not name.startswith(_BATCH):
                self.files.delete(self._path_of_seal(name))
        for place in {path.partition("/")[0] for path in self.files.sizes(f"{self._state}/staged")}:
            self.files.delete(f"{self._state}/staged/{place}")

    def _mark(self) -> None:
        """Say in the directory whose it is: another job may have begun there that has not written anything yet."""
        mark = f"{self.directory}/{_OWNER}"
        if self.files.read(mark) is None:
            self.files.write(mark, self._state)
        owner = self.files.read(mark)  # of two that write it at a time, one finds the other's
        if owner != self._state:
            raise ConfigurationError(
                f"{self.directory} belongs to another job, whose checkpoint is {owner}",
                next_step=f"give that --checkpoint or another directory, or remove {mark} if that job is gone",
            )

    def publish(self, number: int, write: Callable[[str], None]) -> set[str]:
        """Publish a batch; return the directories, from the top one, that it has files in.

        ``write`` puts files into the place it is given; it is not called for a batch that is sealed already.
        """
        name = _name(number)
        seal = self._read(name)
        if seal is None:
            staged, paths = self._stage(name, write)
            moves = {path: f"{_above(path)}{name}-{place:04}{_PARQUET}" for place, path in enumerate(paths)}
            seal = self._seal(name, Seal(staged, moves))
        self._finish(name)
        for old in sorted(kept for kept in self._sealed() if kept < _name(number - _KEPT_SEALS + 1)):
            self.files.delete(self._path_of_seal(old))
        return {_above(path) for path in seal.moves.values()}

    def replace(self, name: str, removes: tuple[str, ...], write: Callable[[str], None]) -> None:
        """Put what ``write`` makes of some files of one directory in their place.

        They are removed before it is there, so that a reader never sees a row twice; one that looks in this moment
        sees those rows a moment later, and if it is killed in this moment, when the next run has begun.
        """
        above = _above(removes[0])
        staged, paths = self._stage(name, write)
        moves = {path: f"{above}{name}-{place:04}{_PARQUET}" for place, path in enumerate(paths)}
        self._seal(name, Seal(staged, moves, removes))
        self._finish(name)
        self.files.delete(self._path_of_seal(name))

    def _stage(self, name: str, write: Callable[[str], None]) -> tuple[str, list[str]]:
        """Let something be written aside, where nothing was before; return where that is, and the files."""
        staged = f"{self._state}/staged/{name}-{uuid4().hex}"
        write(staged)
        return staged, sorted(path for path in self.files.sizes(staged) if path.endswith(_PARQUET))

    def _seal(self, name: str, seal: Seal) -> Seal:
        self.files.write(self._path_of_seal(name), seal.text())
        return seal

    def _finish(self, name: str) -> None:
        """Do what a seal says; whatever of it was done before is passed over."""
        seal = self._read(name)
        # What was moved is not staged any more; and what lies in its place may be merged with others by now.
        left = self.files.sizes(seal.staged) if seal is not None else {}
        if seal is None or not left:
            return
        for path in seal.removes:
            self.files.delete(f"{self.directory}/{path}")
        for path, place in seal.moves.items():
            if path in left:
                self.files.move(f"{seal.staged}/{path}", f"{self.directory}/{place}")
        self.files.delete(seal.staged)

    def _read(self, name: str) -> Seal | None:
        path = self._path_of_seal(name)
        text = self.files.read(path)
        return None if text is None else Seal.of(text, path)

    def _sealed(self) -> list[str]:
        """Return the names of what is sealed, in order."""
        found = self.files.sizes(f"{self._state}/sealed")
        return sorted(path.removesuffix(".json") for path in found if path.endswith(".json"))

    def _path_of_seal(self, name: str) -> str:
        return f"{self._state}/sealed/{name}.json"


def check_beside(directory: str, checkpoint: str) -> None:
    """Make sure that a checkpoint is where files can be moved from to a directory at once, and no reader looks."""
    if f"{checkpoint}/".startswith(f"{directory}/"):
        raise ConfigurationError(
            f"the checkpoint {checkpoint} is inside of {directory}",
            next_step="put it beside: readers take whatever is inside for what was written",
        )
    if not is_one_disk(directory, checkpoint):
        raise ConfigurationError(
            f"the checkpoint {checkpoint} is on another disk than {directory}",
            next_step="give a --checkpoint on the same one: files are moved from there, and a reader must see no half",
        )


def _name(number: int) -> str:
    return f"{_BATCH}{max(0, number):010}"


def _above(path: str) -> str:
    """Return the directory of a file, with the slash behind it; nothing for the top one.

    >>> _above("day=2026-11-01/a.parquet"), _above("a.parquet")
    ('day=2026-11-01/', '')
    """
    directory, slash, _ = path.rpartition("/")
    return directory + slash
