r"""Patterns of the user's (`--format '%t %s\n'`): every word means something, and a bad one is an error beforehand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.cli.consume import consume
from steelyard.cli.shared.message_output import ALL_DIRECTIVES, parse_escapes, parse_format
from steelyard.errors import ConfigurationError
from steelyard.model import Queue, StoredMessage
from tests.tidy.tree import ROOT

MESSAGE = StoredMessage(
    Queue("orders", "broker-0", 3),
    41,
    b"a\x00\xff\x1b[2J\n",
    {"KEYS": "k1 ö", "TAGS": "paid", "UNIQ_KEY": "0A", "region": "eu"},
    born_ms=1_000,
    stored_ms=2_005,
    position=1024,
    store_host="192.168.1.2:10911",
    reconsume_times=2,
)


@pytest.mark.parametrize(
    ("pattern", "printed"),
    [
        ("%t", b"orders"),
        ("%b", b"broker-0"),
        ("%q", b"3"),
        ("%p", b"3"),
        ("%o", b"41"),
        ("%s", MESSAGE.body),
        ("%S", b"8"),
        ("%R", b"\0\0\0\x08"),
        ("%k", "k1 ö".encode()),
        ("%K", b"5"),
        ("%g", b"paid"),
        ("%i", b"0A"),
        ("%I", b"C0A8010200002A9F0000000000000400"),
        ("%T", b"2005"),
        ("%D", b"1970-01-01T00:00:02.005Z"),
        ("%B", b"1000"),
        ("%h", "KEYS=k1 ö,TAGS=paid,UNIQ_KEY=0A,region=eu".encode()),
        ("%r", b"2"),
        ("%%", b"%"),
        (r"\n\r\t\0\\\x41\xff", b"\n\r\t\0\\A\xff"),
        ("ä %t-%o", "ä orders-41".encode()),
        ("", b""),
    ],
)
def test_each_word_means_something(pattern: str, printed: bytes) -> None:
    assert parse_format(pattern)(MESSAGE) == printed


def test_every_word_is_tested_and_in_the_help_and_on_the_page() -> None:
    assert set(ALL_DIRECTIVES) == set("tbqposSRkKgiITDBhr")
    page = (ROOT / "docs" / "cli" / "consume.md").read_text(encoding="utf-8")
    for word in ALL_DIRECTIVES:
        assert f"`%{word}`" in page
        assert f"%{word} " in (consume.help or "")


@pytest.mark.parametrize("pattern", ["%x", "%", "a%", r"\q", "\\", r"\x4", r"\xzz", "% t"])
def test_what_means_nothing_is_an_error_beforehand(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--format has no (directive|escape)"):
        parse_format(pattern)


def test_nothing_is_a_command_to_the_terminal() -> None:
    assert parse_format(r"%s\n", for_terminal=True)(MESSAGE) == rb"a\x00\xff\x1b[2J\n" + b"\n"


def test_only_known_words_may_be_used() -> None:
    with pytest.raises(ConfigurationError, match="--format has no directive %T; there are: %t %o %%"):
        parse_format("%t %T", allowed="to")


def test_a_delimiter_has_escapes_and_no_words() -> None:
    assert parse_escapes(r"%s\0\x25", option="--delimiter") == b"%s\0%"
    with pytest.raises(ConfigurationError, match=r"--delimiter has no escape \\q"):
        parse_escapes(r"\q", option="--delimiter")


@given(st.text(max_size=30), st.booleans())
def test_any_pattern_is_read_or_refused(pattern: str, for_terminal: bool) -> None:
    try:
        write = parse_format(pattern, for_terminal=for_terminal)
    except ConfigurationError:
        return
    printed = write(MESSAGE)
    if for_terminal and "\x1b" not in pattern and "\\" not in pattern:
        assert b"\x1b" not in printed


@given(st.text(max_size=30))
def test_text_without_words_is_printed_as_it_is(text: str) -> None:
    pattern = text.replace("\\", "\\\\").replace("%", "%%")
    try:
        raw = text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return
    assert parse_format(pattern)(MESSAGE) == raw
    assert parse_escapes(text.replace("\\", "\\\\"), option="--delimiter") == raw
