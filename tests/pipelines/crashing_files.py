"""Files in memory, of a process that is killed at any step, and a reader that looks after every step."""

from collections.abc import Callable, Iterable


class Killed(BaseException):
    """The process is gone; what it had done stays."""


class CrashingFiles:
    """Files whose text is their rows, one a line. Every change of one file is a step."""

    def __init__(self, observe: Callable[[dict[str, str]], object] = len) -> None:
        self.texts: dict[str, str] = {}
        self.steps = 0
        self.crash_at: int | None = None
        self._observe = observe

    def sizes(self, directory: str) -> dict[str, int]:
        """Return the bytes of each file below a directory."""
        begin = f"{directory.rstrip('/')}/"
        return {path.removeprefix(begin): len(text) for path, text in self.texts.items() if path.startswith(begin)}

    def read(self, path: str) -> str | None:
        """Return the text of a file."""
        return self.texts.get(path)

    def write(self, path: str, text: str) -> None:
        """Make a file, by way of half of one, as a file system does."""
        self.put(f"{path}.half", text[: len(text) // 2])
        self.put(f"{path}.half", text)
        self.move(f"{path}.half", path)

    def put(self, path: str, text: str) -> None:
        """Write a file in place."""
        self._step()
        self.texts[path] = text
        self._observe(dict(self.texts))

    def put_rows(self, path: str, rows: Iterable[str]) -> None:
        """Write a file of rows in place, which takes a while."""
        listed = list(rows)
        self.put(path, "")
        self.put(path, "\n".join(listed))

    def move(self, source: str, target: str) -> None:
        """Give a file another place."""
        assert target not in self.texts, "no name is used twice"
        self._step()
        self.texts[target] = self.texts.pop(source)
        self._observe(dict(self.texts))

    def delete(self, path: str) -> None:
        """Remove a file, or one after the other all below a directory."""
        for each in sorted(name for name in self.texts if name == path or name.startswith(f"{path}/")):
            self._step()
            del self.texts[each]
            self._observe(dict(self.texts))

    def rows(self, directory: str) -> list[str]:
        """Return what a reader sees who takes all Parquet files below a directory."""
        return rows_below(self.texts, directory)

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.crash_at:
            raise Killed


def rows_below(texts: dict[str, str], directory: str) -> list[str]:
    """Return the rows of all Parquet files below a directory."""
    files = (text for path, text in texts.items() if path.startswith(f"{directory}/") and path.endswith(".parquet"))
    return [row for text in files for row in text.split("\n")]
