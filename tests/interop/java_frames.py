"""Frames through Java's line handlers, and what our side needs to compare with them."""

from typing import Any

from steelyard.wire.codes import HeaderType
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder
from tests.interop.peer import Peer

WAYS = ("line", "alone")
"""Java has two writers: the one on its connections, which knows short cuts, and the plain one."""

_JAVA_TYPES = {HeaderType.JSON: "JSON", HeaderType.BINARY: "ROCKETMQ"}
_OUR_TYPES = {name: kind for kind, name in _JAVA_TYPES.items()}


def read_by_java(java: Peer, frame: bytes) -> dict[str, Any]:
    """Return what Java reads: the parts of a command, None for what is absent."""
    found: dict[str, Any] = java.ask("read-frame", frame)
    return found | {"type": _OUR_TYPES[found["type"]]}


def written_by_java(java: Peer, way: str, command: Command, header_class: str | None = None) -> bytes:
    """Let Java write a command; with a class, its fields are put into a header of that class first."""
    how = (way, _JAVA_TYPES[command.header_type], header_class)
    meta = (command.code, command.opaque, command.flag, command.version, command.language, command.remark)
    return java.ask_bytes("write-frame", *how, *meta, command.body or None, command.texts())


def only(frame: bytes) -> Command:
    """Read the one command that a frame holds."""
    (command,) = FrameDecoder().feed(frame)
    return command
