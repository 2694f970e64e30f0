"""A command: one request or one response. Its fields stay encoded until they are needed.

Both header types give equal commands, so a core never sees which one a peer uses. A server responds in the type of the
request (`response_to`); a client checks each frame, since Apache 5.x always responds in JSON.

JSON headers are written as Java does: alphabetical, compact, the fields in ``extFields``. We always write
``extFields``, since some servers fail without it, and never ``serializeTypeCurrentRPC``, which says that JSON is JSON.

A core never sees a socket. It sees a `Peer`, which is one connection, and returns a `Reply` for that peer or any other.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from steelyard.errors import ConfigurationError, MalformedHeader
from steelyard.wire.binary_header import (
    decode_binary_header,
    encode_binary_header,
    header_from_binary,
    pack_fields,
    pack_header,
    texts_from_binary,
)
from steelyard.wire.codes import CLIENT_LANGUAGE, CLIENT_VERSION, LANGUAGES, SERVER_VERSION, HeaderType
from steelyard.wire.header_codec import (
    SMALL_HEADER_BYTES,
    H,
    Header,
    header_from_texts,
    header_layout,
    texts_from_json,
)
from steelyard.wire.hosts import host_bytes
from steelyard.wire.java_json import DECODE_ERRORS, Int32

RESPONSE_FLAG = 1
"""The bit of a response in the flag."""

ONEWAY_FLAG = 2
"""The bit of a request without a response, not even an error."""

CommandFields = Header | Mapping[str, str] | Raw | bytes
"""The fields of a command: typed or named texts if we made it; raw JSON or packed bytes if we received it."""

_NO_FIELDS: Mapping[str, str] = {}
_JSON, _BINARY = HeaderType.JSON, HeaderType.BINARY


class Command(Struct, frozen=True, gc=False):
    """One request or response."""

    code: int
    fields: CommandFields = _NO_FIELDS
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    version: int = CLIENT_VERSION
    language: str = CLIENT_LANGUAGE
    header_type: HeaderType = _JSON
    parts: tuple[memoryview, ...] = ()
    """More of the body, after ``body``: views of a log, which are sent without a copy."""

    @property
    def is_response(self) -> bool:
        """Whether this is a response; everything else is a request."""
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        """Whether this is a request without a response."""
        return self.flag & (RESPONSE_FLAG | ONEWAY_FLAG) == ONEWAY_FLAG

    def header(self, kind: type[H]) -> H:
        """Decode the fields as a typed header; a missing or unreadable field raises MalformedHeader."""
        fields = self.fields
        if isinstance(fields, Raw):
            if len(fields) <= SMALL_HEADER_BYTES:
                try:
                    decoder: msgspec.json.Decoder[H] = header_layout(kind).decoder
                    return decoder.decode(fields)
                except DECODE_ERRORS:
                    pass  # sloppy or wrong: the slow way below finds out
            return header_from_texts(kind, texts_from_json(fields))
        if isinstance(fields, bytes):
            return header_from_binary(kind, fields)
        return fields if isinstance(fields, kind) else header_from_texts(kind, self.texts())

    def texts(self) -> dict[str, str]:
        """Decode the fields as named texts, known or not."""
        fields = self.fields
        if isinstance(fields, Raw):
            return texts_from_json(fields)
        if isinstance(fields, bytes):
            return texts_from_binary(fields)
        if isinstance(fields, Header):
            named = zip(header_layout(type(fields)).names, fields.texts(), strict=True)
            return {name: text for name, text in named if text}
        return dict(fields)


def response_to(
    request: Command, code: int = 0, fields: CommandFields = _NO_FIELDS, body: bytes = b"", remark: str | None = None
) -> Command:
    """Make the response to a request: same opaque, same header type, from a server of release 5.5."""
    kind = request.header_type
    return Command(code, fields, body, request.opaque, RESPONSE_FLAG, remark, SERVER_VERSION, header_type=kind)


_NO_JSON_FIELDS = Raw(b"{}")
_NULL = b"null"


class _DecodedJson(Struct, frozen=True, gc=False, rename="camel"):
    """A JSON header to decode; its fields stay raw until they are needed."""

    code: Int32
    ext_fields: Raw = _NO_JSON_FIELDS
    flag: Int32 = 0
    language: str | int | None = None
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


class _EncodedJson(Struct, frozen=True, gc=False, rename="camel"):
    """A JSON header to encode: only the remark may be left out."""

    code: int
    ext_fields: Struct | Mapping[str, str] | Raw
    flag: int
    language: str
    opaque: int
    remark: str | UnsetType
    version: int


_decode_json = msgspec.json.Decoder(_DecodedJson, strict=False).decode
_encode_json = msgspec.json.Encoder().encode


def decode_command(header_type: HeaderType, header: bytes, body: bytes) -> Command:
    """Decode a command from the bytes of its header and its body."""
    if header_type is _BINARY:
        code, language, version, opaque, flag, remark, packed = decode_binary_header(header)
        return Command(code, packed, body, opaque, flag, remark, version, language, header_type)
    try:
        read = _decode_json(header)
    except DECODE_ERRORS as error:
        raise MalformedHeader(str(error), where="JSON header") from None
    spoken, fields = read.language, read.ext_fields
    if not isinstance(spoken, str):
        spoken = LANGUAGES[spoken] if spoken is not None and 0 <= spoken < len(LANGUAGES) else "OTHER"
    if len(fields) == len(_NULL) and bytes(fields) == _NULL:
        fields = _NO_JSON_FIELDS
    return Command(read.code, fields, body, read.opaque, read.flag, read.remark, read.version, spoken, header_type)


def encode_header(command: Command) -> bytes:
    """Encode a command's header in its header type.

    >>> encode_header(Command(105, {"topic": "T"}, opaque=7))
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":7,"version":479}'
    """
    code, fields, flag, opaque = command.code, command.fields, command.flag, command.opaque
    language, version, remark = command.language, command.version, command.remark
    try:
        if command.header_type is _JSON:
            texts: Struct | Mapping[str, str] | Raw
            if isinstance(fields, Header):
                texts = header_layout(type(fields)).text_struct(*fields.texts())
            else:
                texts = command.texts() if isinstance(fields, bytes) else fields
            return _encode_json(
                _EncodedJson(code, texts, flag, language, opaque, UNSET if remark is None else remark, version)
            )
        if isinstance(fields, Header):
            packed = pack_header(fields)
        else:
            packed = fields if isinstance(fields, bytes) else pack_fields(command.texts().items())
        return encode_binary_header(code, language, version, opaque, flag, remark, packed)
    except UnicodeEncodeError as error:
        what = f"the header of request {code} has the text {error.object[:80]!r}, which is not fit for UTF-8"
        raise ConfigurationError(what, next_step="give text without halves of surrogate pairs") from None


class Peer(Struct, frozen=True, gc=False):
    """One connection to this server. ``connection_id`` is unique in a process: use it as key."""

    connection_id: int
    host: str
    port: int
    address: str
    """Host and port as text."""
    born_host: bytes
    """Host and port as bytes of a record."""

    @classmethod
    def at(cls, host: str, port: int, *, connection_id: int) -> "Peer":
        """Make the peer of a connection.

        >>> Peer.at("::1", 50_000, connection_id=7).address
        '[::1]:50000'
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return cls(connection_id, host, port, address, host_bytes(address))


class Reply(Struct, frozen=True, gc=False):
    """A command to send: a response, or a request of the server's own."""

    peer: Peer
    command: Command


class CloseConnection(Struct, frozen=True, gc=False):
    """A connection to close, and why."""

    peer: Peer
    why: str
