"""Recorded commands by code, and a broker that handles whole commands."""

from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.broker.broker_harness import BrokerHarness
from tests.golden_frames import golden_frames

RELEASES = ("4.9.7", "5.5.0")


def recorded(release: str, case: str, code: int, *, is_answer: bool = False) -> list[Command]:
    """Return the recorded commands of real peers in a case, by the code of the request."""
    return [
        command
        for golden in golden_frames()
        if golden.release == release and golden.case.startswith(case)
        if golden.request_code == code and golden.is_answer == is_answer
        for command in FrameDecoder().feed(golden.frame)
    ]


def travelled(command: Command) -> Command:
    """Return a command as the other end of a connection reads it."""
    (read,) = FrameDecoder().feed(encode_frame(command))
    return read


def store(harness: BrokerHarness, command: Command) -> Command:
    """Send a command to a broker and return the response."""
    return harness.request(command.code, command.fields, command.body)
