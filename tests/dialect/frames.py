"""Recorded commands by code, and a desk that takes whole commands."""

from tests.broker.desk import Desk
from tests.golden_frames import golden_frames

from steelyard.wire.command import Command
from steelyard.wire.frames import Splitter, encode_frame

__all__ = ["RELEASES", "recorded", "store", "travelled"]

RELEASES = ("4.9.7", "5.5.0")


def recorded(release: str, case: str, code: int, *, is_answer: bool = False) -> list[Command]:
    """Return the commands that real peers said in a case, by the code of the request."""
    return [
        command
        for golden in golden_frames()
        if golden.release == release and golden.case.startswith(case)
        if golden.request_code == code and golden.is_answer == is_answer
        for command in Splitter().feed(golden.frame)
    ]


def travelled(command: Command) -> Command:
    """Return a command as the other end of a line reads it."""
    (read,) = Splitter().feed(encode_frame(command))
    return read


def store(desk: Desk, command: Command) -> Command:
    """Send a command to a desk's broker and return the answer."""
    return desk.ask(command.code, command.fields, command.body)
