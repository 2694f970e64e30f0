"""Java's order and Java's hash, against a slow reading of its documentation."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.model import java_hash, tag_hash, utf16_units

# Lone surrogates included: Java's strings may hold them, and a name from a peer may too.
_ANY_TEXT = st.text(st.characters(codec=None), max_size=600)
_AROUND_THE_GAP = st.text(st.sampled_from("a\ud7ff\ud800\udbff\udc00\udfff\ue000\uffff\U00010000\U0001f600\U0010ffff"))


def _units_slowly(text: str) -> list[int]:
    units: list[int] = []
    for point in map(ord, text):
        if point < 0x10000:
            units.append(point)
        else:
            high, low = divmod(point - 0x10000, 0x400)
            units += [0xD800 + high, 0xDC00 + low]
    return units


def _hash_slowly(text: str) -> int:
    total = 0
    for unit in _units_slowly(text):
        total = (31 * total + unit) & 0xFFFFFFFF
    return total - 0x1_0000_0000 if total >= 0x8000_0000 else total


def test_known_hashes_are_javas() -> None:
    assert java_hash("") == 0
    assert java_hash("a") == 97
    assert java_hash("TagA") == 2598919
    assert java_hash("hello") == 99162322
    assert java_hash("order-1") == -1207111310
    assert java_hash("Aa") == java_hash("BB") == 2112
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


@given(_ANY_TEXT | _AROUND_THE_GAP)
def test_the_hash_is_javas_for_every_text(text: str) -> None:
    assert java_hash(text) == _hash_slowly(text)


@given(st.text("ab\U0001f600", min_size=250, max_size=800))
def test_long_texts_hash_as_short_ones_do(text: str) -> None:
    assert java_hash(text) == _hash_slowly(text)


@given(_ANY_TEXT | _AROUND_THE_GAP)
def test_units_are_those_of_utf16(text: str) -> None:
    assert list(map(ord, utf16_units(text))) == _units_slowly(text)


@given(_AROUND_THE_GAP, _AROUND_THE_GAP)
def test_the_order_of_units_is_javas_order_of_texts(left: str, right: str) -> None:
    assert (utf16_units(left) < utf16_units(right)) == (_units_slowly(left) < _units_slowly(right))


def test_javas_order_differs_from_pythons_only_above_the_surrogates() -> None:
    private, emoji = "\ue000", "\U0001f600"
    assert private < emoji
    assert utf16_units(emoji) < utf16_units(private)


def test_no_tag_hashes_to_zero() -> None:
    assert tag_hash(None) == tag_hash("") == 0


@given(st.text(min_size=1))
def test_a_tag_hashes_as_its_text_does(tag: str) -> None:
    assert tag_hash(tag) == java_hash(tag)
