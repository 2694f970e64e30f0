"""A command: one request or one answer. Its fields stay as they came until somebody asks for them.

Both header types give equal commands, and a typed header read from either is the same value: a core never sees which
one a peer speaks. A server answers in the type it was asked in (`answer_to` does that); a client looks at each frame,
since Apache 5.x answers in JSON whatever it was asked in.
"""

from collections.abc import Mapping

from msgspec import Raw, Struct

from steelyard.errors import ConfigurationError
from steelyard.wire.binary_header import decode_binary, encode_binary, pack_fields, pack_header, texts_from_binary
from steelyard.wire.codes import OUR_LANGUAGE, OUR_VERSION, SERVER_VERSION, HeaderType
from steelyard.wire.fields import H, Header, from_json, from_texts, plan_of, texts_from_json
from steelyard.wire.json_header import decode_json, encode_json
from steelyard.wire.shapes import from_binary

__all__ = ["ONEWAY", "RESPONSE", "Command", "Fields", "answer_to", "decode_command", "encode_header"]

RESPONSE = 1
"""The flag's bit of an answer."""

ONEWAY = 2
"""The flag's bit of a request that must not be answered, not even with an error."""

Fields = Header | Mapping[str, str] | Raw | bytes
"""A command's fields: typed or named texts when we made them; as they came, JSON or packed, when we read them."""

_NOTHING: Mapping[str, str] = {}
_JSON, _BINARY = HeaderType.JSON, HeaderType.BINARY


class Command(Struct, frozen=True, gc=False):
    """One request or answer.

    >>> ask = Command(105, {"topic": "orders"}, opaque=7)
    >>> decode_command(HeaderType.JSON, encode_header(ask), b"").texts()
    {'topic': 'orders'}
    """

    code: int
    fields: Fields = _NOTHING
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    version: int = OUR_VERSION
    language: str = OUR_LANGUAGE
    header_type: HeaderType = _JSON
    parts: tuple[memoryview, ...] = ()
    """More of the body, behind ``body``: views of a log, which are written to the line without a copy."""

    @property
    def is_answer(self) -> bool:
        """Whether this is an answer; everything else is a request."""
        return self.flag & RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether this is a request that must not be answered."""
        return self.flag & (RESPONSE | ONEWAY) == ONEWAY

    def header(self, kind: type[H]) -> H:
        """Read the fields as a typed header; a missing or unreadable one raises MalformedHeader."""
        fields = self.fields
        if isinstance(fields, bytes):
            return from_binary(kind, fields)
        if isinstance(fields, Raw):
            return from_json(kind, fields)
        return fields if isinstance(fields, kind) else from_texts(kind, self.texts())

    def texts(self) -> dict[str, str]:
        """Read the fields as named texts, known or not."""
        fields = self.fields
        if isinstance(fields, Raw):
            return texts_from_json(fields)
        if isinstance(fields, bytes):
            return texts_from_binary(fields)
        if isinstance(fields, Header):
            named = zip(plan_of(type(fields)).names, fields.texts(), strict=True)
            return {name: text for name, text in named if text}
        return dict(fields)


def answer_to(
    request: Command, code: int = 0, fields: Fields = _NOTHING, body: bytes = b"", remark: str | None = None
) -> Command:
    """Make the answer to a request: same opaque, same header type, from a server of release 5.5.

    >>> answer_to(Command(105, opaque=7), 17, remark="no such topic").opaque
    7
    """
    kind = request.header_type
    return Command(code, fields, body, request.opaque, RESPONSE, remark, SERVER_VERSION, header_type=kind)


def decode_command(header_type: HeaderType, header: bytes, body: bytes) -> Command:
    """Make a command of a header's bytes and a body."""
    fields: Fields
    if header_type is _JSON:
        code, language, version, opaque, flag, remark, fields = decode_json(header)
    else:
        code, language, version, opaque, flag, remark, fields = decode_binary(header)
    return Command(code, fields, body, opaque, flag, remark, version, language, header_type)


def encode_header(command: Command) -> bytes:
    """Write a command's header in its header type."""
    try:
        return _encoded(command)
    except UnicodeEncodeError as error:
        what = f"the header of request {command.code} has the text {error.object[:80]!r}, which is not fit for UTF-8"
        raise ConfigurationError(what, next_step="give text without halves of surrogate pairs") from None


def _encoded(command: Command) -> bytes:
    fields = command.fields
    meta = command.code, command.language, command.version, command.opaque, command.flag, command.remark
    if command.header_type is _JSON:
        if isinstance(fields, Header):
            return encode_json(*meta, plan_of(type(fields)).twin(*fields.texts()))
        return encode_json(*meta, command.texts() if isinstance(fields, bytes) else fields)
    if isinstance(fields, Header):
        packed = pack_header(fields)
    else:
        packed = fields if isinstance(fields, bytes) else pack_fields(command.texts().items())
    return encode_binary(*meta, packed)
