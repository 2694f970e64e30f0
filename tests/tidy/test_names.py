"""A name says what the thing is; these words say nothing, so no class and no file has them in its name."""

import ast
from collections.abc import Iterator

from tests.tidy.tree import Source, complain, modules, words

_SAY_NOTHING = frozenset("Manager Impl Helper Util Utils Base Service Processor Info Data".split())


def test_no_name_says_nothing() -> None:
    complain(line for source in modules() for line in empty_names(source))


def test_an_empty_word_is_seen_and_a_word_that_only_contains_one_is_not() -> None:
    def complaints(text: str, path: str = "src/steelyard/model/x.py") -> list[str]:
        return list(empty_names(Source(path, text)))

    assert "QueueManager" in complaints("class QueueManager: ...")[0]
    assert "_DataRow" in complaints("def make():\n    class _DataRow: ...")[0]
    assert "HTTPInfo" in complaints("class HTTPInfo: ...")[0]
    assert "queue_utils.py" in complaints("", "src/steelyard/model/queue_utils.py")[0]
    assert not complaints("class Database: ...\nclass Informed: ...\nclass Baseline: ...")


def empty_names(source: Source) -> Iterator[str]:
    """Name the classes, and the file, whose name holds a word that says nothing."""
    stem = source.path.rpartition("/")[2].removesuffix(".py")
    for word in _SAY_NOTHING.intersection(part.capitalize() for part in stem.split("_")):
        yield f"{source.path}: the word {word!r} says nothing: name the file after what is in it"
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            for word in sorted(_SAY_NOTHING.intersection(words(node.name))):
                yield f"{source.at(node)}: in {node.name} the word {word!r} says nothing: name it after what it is"
