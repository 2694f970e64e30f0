"""A signature is made of exactly what arrives, in both header types: a verifier of its own agrees with every one."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.wire.codes import CLIENT_VERSION, HeaderType
from steelyard.wire.command import Command, response_to
from steelyard.wire.frames import FrameDecoder, encode_frame
from steelyard.wire.header_codec import Header
from steelyard.wire.headers.pull import QueryMessages
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.signing import Credentials, sign_command
from tests.golden_frames import GoldenFrame, golden_frames

SHOP = Credentials("shop", "12345678")
QUERY = "_UNIQUE_KEY_QUERY"

texts = st.text(st.characters(codec="utf-8"), max_size=40)
# A field of its own may not be called as ours are, and a binary header has no room for a name that is too long.
names = texts.filter(lambda name: name not in ("", "Signature", "AccessKey", "SecurityToken", QUERY)).map(
    lambda name: name[:20]
)
secrets = texts.filter(lambda text: bool(text.strip()))
credentials = st.builds(Credentials, secrets, secrets, st.none() | secrets)


def arrived(command: Command) -> Command:
    """Return a command as the other side reads it."""
    (read,) = FrameDecoder().feed(encode_frame(command))
    return read


def is_true(request: Command, secret: str, *, is_4_9: bool) -> bool:
    """Check a signature as the brokers do: what arrived, sorted by name as Java sorts, but the signature itself."""
    fields = request.texts()
    if is_4_9 or request.version <= 399:
        fields.pop(QUERY, None)
    claimed = fields.pop("Signature")
    in_order = sorted(fields, key=lambda name: name.encode("utf-16-be"))
    content = "".join(fields[name] for name in in_order).encode() + request.body
    return base64.b64encode(hmac.new(secret.encode(), content, hashlib.sha1).digest()).decode() == claimed


def test_the_signature_is_the_one_java_makes() -> None:
    """The check value of Java's own classes: the text RocketMQ, the secret 12345678."""
    request = sign_command(Command(105, {"topic": "MQ"}), Credentials("Rocket", "12345678"))
    assert request.texts()["Signature"] == "IUc8rrO/0gDch8CjObLQsW2rsiA="


def test_the_body_counts_behind_the_fields() -> None:
    whole = sign_command(Command(105, {"topic": "MQ"}), Credentials("Rocket", "12345678"))
    parted = sign_command(Command(105, {}, b"ketMQ"), Credentials("Roc", "12345678"))
    seen = sign_command(Command(105, {}, b"ket", parts=(memoryview(b"MQ"),)), Credentials("Roc", "12345678"))
    assert whole.texts()["Signature"] == parted.texts()["Signature"] == seen.texts()["Signature"]


@given(st.dictionaries(names, texts, max_size=6), st.binary(max_size=40), credentials, st.sampled_from(HeaderType))
def test_a_verifier_of_what_arrived_agrees(
    fields: dict[str, str], body: bytes, who: Credentials, header_type: HeaderType
) -> None:
    request = arrived(sign_command(Command(310, fields, body, header_type=header_type), who))
    for is_4_9 in (True, False):
        assert is_true(request, who.secret_key, is_4_9=is_4_9)
        assert not is_true(request, who.secret_key + "!", is_4_9=is_4_9)
    assert request.texts()["AccessKey"] == who.access_key
    assert request.texts().get("SecurityToken") == who.token
    kept = {name: text for name, text in fields.items() if text or header_type is HeaderType.JSON}
    assert kept.items() <= request.texts().items()


@pytest.mark.parametrize("header_type", list(HeaderType))
@pytest.mark.parametrize(
    "header",
    [
        SendMessageV2("shop", "orders", "TBW102", 4, 0, 0, 7, 0),
        SendMessageV2("shop", "bestellungen-größe", "TBW102", 4, 0, 0, 7, 0, properties="", broker=""),
        QueryMessages(topic="orders", key="order-1", max_num=32, begin_timestamp=0, end_timestamp=9),
    ],
)
def test_a_typed_header_is_signed_as_it_is_written(header: Header, header_type: HeaderType) -> None:
    request = arrived(sign_command(Command(310, header, b"body", header_type=header_type), SHOP))
    assert is_true(request, "12345678", is_4_9=True)
    assert is_true(request, "12345678", is_4_9=False)
    assert request.header(type(header)) == arrived(Command(310, header, header_type=header_type)).header(type(header))


@pytest.mark.parametrize("header_type", list(HeaderType))
def test_a_query_by_unique_key_is_taken_by_4_9_and_by_5_5(header_type: HeaderType) -> None:
    request = arrived(sign_command(Command(12, {"topic": "orders", QUERY: "true"}, header_type=header_type), SHOP))
    assert is_true(request, "12345678", is_4_9=True)
    assert is_true(request, "12345678", is_4_9=False)
    assert request.texts()[QUERY] == "true"
    assert request.version == 399


@pytest.mark.parametrize(
    "golden", [each for each in golden_frames() if not each.is_answer], ids=lambda golden: str(golden)
)
def test_every_request_of_java_can_be_signed(golden: GoldenFrame) -> None:
    (request,) = FrameDecoder().feed(golden.frame)
    again = arrived(sign_command(request, SHOP))
    assert is_true(again, "12345678", is_4_9=golden.release.startswith("4"))
    fields = again.texts()
    assert (fields.pop("AccessKey"), len(fields.pop("Signature"))) == ("shop", 28)
    assert fields == request.texts()
    assert again.body == request.body


def test_a_request_that_is_signed_again_has_one_signature() -> None:
    once = sign_command(Command(105, {"topic": "orders"}), SHOP)
    assert sign_command(once, SHOP) == once
    assert is_true(sign_command(once, Credentials("shop", "new")), "new", is_4_9=True)
    assert once.version == CLIENT_VERSION


def test_an_answer_is_not_signed() -> None:
    answer = response_to(Command(105, opaque=7), fields={"a": "b"})
    assert sign_command(answer, SHOP) is answer


def test_secrets_are_not_shown() -> None:
    who = Credentials("shop", "tell-nobody", "nor-this")
    assert repr(who) == str(who) == "Credentials(access_key='shop')"


@pytest.mark.parametrize("bad", [("", "s"), ("a", ""), ("a", "  "), ("a", "\ud800"), ("a", "s", "")])
def test_what_cannot_be_a_key_is_refused_without_showing_it(bad: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Credentials(*bad)
    assert "give the text that the broker knows" in str(caught.value)
    assert "ud800" not in str(caught.value)


def test_a_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not fit for UTF-8"):
        sign_command(Command(105, {"topic": "\ud800"}), SHOP)
