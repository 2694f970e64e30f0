"""The page for users has every option as the code has it. `python -m tests.spark.test_option_page` writes it anew."""

from pathlib import Path

from steelyard.spark.option_table import OPTIONS, OptionMode

_PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
_HEAD = "| option | for | default | what it says |\n|---|---|---|---|\n"
_MODES = {OptionMode.BATCH: "batch", OptionMode.STREAM: "stream", OptionMode.WRITE: "write"}


def test_the_page_has_every_option_as_the_code_has_it() -> None:
    assert _table() in _PAGE.read_text(encoding="utf-8"), "write it: python -m tests.spark.test_option_page"


def _table() -> str:
    return _HEAD + "".join(
        f"| `{option.name}` | {_reported(option.modes)} | {_code(option.default)} | {_escaped(option.description)} |\n"
        for option in OPTIONS
    )


def _reported(modes: OptionMode) -> str:
    return "all" if modes == OptionMode.ANY else ", ".join(word for mode, word in _MODES.items() if mode & modes)


def _code(default: str | None) -> str:
    return "" if default is None else f"`{default}`"


def _escaped(sentence: str) -> str:
    return sentence.replace("|", "\\|")


def _write() -> None:
    before, _, rest = _PAGE.read_text(encoding="utf-8").partition(_HEAD)
    after = rest[rest.index("\n\n") + 1 :]
    _PAGE.write_text(before + _table() + after, encoding="utf-8")


if __name__ == "__main__":
    _write()
