"""What people read is said in the words they search for: messages, help, pages of documentation and the dashboard.

An on-call reader scans for known nouns: rebalance, lag, connection, redelivery, offset, strategy. So phrases that
hide the subject are listed here with what to write. Some retired nouns have other, honest meanings (a line of text, a
channel of Go), so they are matched only in phrases. Code on a page is not prose, and what it prints comes from
messages anyway.
"""

import ast
import re
from collections.abc import Iterator

from tests.docs.docs_pages import prose
from tests.docs.generate import BUILT
from tests.tidy.tree import ROOT, Source, complain, pages, product, texts

_COUNTED = "(?:messages|times|queues|changes|checks|records|moves|a second|ago|first|each)"
_RETIRED = {
    r"\b(?:whoever|whomever)\b": "name who it is: a client, a member, a program",
    r"\bwhatever\b": "name it, or say 'any'",
    r"\bnobody\b": "say what is missing: no owner, no member",
    r"\b(?:some|any|every)body\b": "name who it is: a user, a member, a client",
    r"\bso (?:many|long)\W*$": "say the number, the maximum, or 'this many'",
    rf"\bso (?:many|long) {_COUNTED}\b": "say the number, the maximum, or 'this many'",
    r"\b(?:is|are|it is) (?:asked for|wanted) again\b|\basks? for it again\b": "it is redelivered",
    r"\bcomes? again\b": "it is redelivered",
    r"\bshares? (?:alike|by)\b|\bshared by (?-i:[A-Z]{2,}|\{)": "strategy …: allocation strategy",
    r"\bhow far (?:it|a group|the group|they|\{[^}]*\}) (?:is|are)\b": "committed offset, or lag",
    r"\bwalk(?:s|ed|ing)? around\b": "route around, or avoid",
    r"\bbeliev(?:e|es|ing) any": "without verifying certificates",
    r"\bof (?:its|their) own making\b": "self-signed",
    r"\bof other makes\b|\banother make\b": "of other clients",
    r"\bencrypt lines\b": "use TLS for connections",
    r"\b(?:the|a|its|each|every) line (?:closed|broke|is (?:cut|closed|gone|back|free))\b": "connection",
    r"\bcuts? (?:the |its )?lines?\b": "close connections",
    r"\b(?:takes|holds) the line\b": "accepts the connection",
    r"\bledgers?\b": "latency of brokers",
    r"\bhazards?\b": "warning, or finding",
    r"\bis done without\b": "is disabled, and logged once",
    r"\bfor who\b|\bwho has to\b|\bfor whom it may\b": "name who it is",
    r"\bwho is asking\b": "access key",
    r"\bclients may$": "permission",
    r"\bin hand\b": "in flight, or being handled",
    r"\bon or back\b": "shift by",
    r"\bdialled\b|\bdialect\b": "connected; protocol",
    r"\bof its own accord\b": "by itself",
}

_DASHBOARD = "src/steelyard/dashboard/static"
_WORDS_OF_DASHBOARD = (f"{_DASHBOARD}/js/i18n/", f"{_DASHBOARD}/index.html", f"{_DASHBOARD}/login.html")
_TEXT_OF_SCRIPT = re.compile(r': "((?:[^"\\]|\\.)*)"')
_TAG = re.compile(r"<[^>]+>")


def test_messages_help_pages_and_dashboard_say_what_they_mean() -> None:
    complain(line for place, text in read_by_people() for line in voice_complaints(place, text))


def test_each_retired_phrase_is_seen_and_honest_words_are_not() -> None:
    bad = (
        "Whoever has the token is let in",
        "Stop after so many messages.",
        "At most so many",
        "it is asked for again",
        "16 queues, shared by STICKY",
        "how far it is cannot be stored",
        "producers that walk around slow brokers",
        "Encrypt lines, and believe anybody: of its own making",
        "c3 is gone: its line closed",
        "each answer goes into a ledger",
        "What a server lacks is done without",
        "metrics for who asks for them",
        "a hazard",
        "what was in hand is handled again",
    )
    for text in bad:
        assert list(voice_complaints("there", text)), text
    good = (
        "Each line of stdin is a message.",
        "as long as it takes",
        "a lock, shared by all threads",
        "Print one JSON object a line",
        "a channel of Go",
        "how far that is from the minimum",
        "it takes as many as there are",
    )
    for text in good:
        assert not list(voice_complaints("there", text)), text


def test_sentences_of_a_program_are_found() -> None:
    text = 'def go() -> None:\n    """Send it."""\n    log(f"to {topic} or nobody", "name")\n'
    module = Source("src/steelyard/cli/x.py", text)
    assert [text for _, text in sentences(module)] == ["Send it.", "to {} or nobody"]
    inside = Source("src/steelyard/net/x.py", '"""Nobody reads this."""\nA = "a"\n')
    assert not list(sentences(inside))


def read_by_people() -> Iterator[tuple[str, str]]:
    """Return every text that a user reads, and where it stands."""
    for page in pages():
        if page == "README.md" or (page.startswith("docs/") and page not in BUILT):
            for number, line in enumerate(prose((ROOT / page).read_text(encoding="utf-8")).splitlines(), start=1):
                yield f"{page}:{number}", line
    for module in product():
        yield from sentences(module)
    for source in texts():
        if source.path.startswith(_WORDS_OF_DASHBOARD) and source.path.endswith((".js", ".html")):
            for number, line in enumerate(source.text.splitlines(), start=1):
                found = _TEXT_OF_SCRIPT.findall(line) if source.path.endswith(".js") else [_TAG.sub(" ", line)]
                yield from ((f"{source.path}:{number}", text) for text in found)


def sentences(module: Source) -> Iterator[tuple[str, str]]:
    """Return the texts of several words in a module; docstrings only where they are the help of commands."""
    is_of_cli = module.path.startswith("src/steelyard/cli/")
    helps = {id(node.body[0]) for node in module.nodes if is_of_cli and isinstance(node, ast.FunctionDef)}
    bare = {id(node.value) for node in module.nodes if isinstance(node, ast.Expr) and id(node) not in helps}
    parts = {id(part) for node in module.nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    skipped = bare | parts
    for node in module.nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield module.at(node), text


def voice_complaints(place: str, text: str) -> Iterator[str]:
    """Say which retired phrases a text has."""
    for pattern, better in _RETIRED.items():
        if found := re.search(pattern, text, re.IGNORECASE):
            yield f"{place} says {found[0]!r}: {better}"
