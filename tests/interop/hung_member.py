"""A program with one member in each of some groups: stopped, made to stutter or slow by a test.

Arguments: the name server, and `group=topic` for each member. It prints a line when all members have started, and goes
on until its standard input ends. A line in there says how many seconds late it is to say what it holds.
"""

import asyncio
import sys
from contextlib import ExitStack
from unittest import mock

from steelyard import Consumer
from steelyard.client.consumer.member_runner import MemberRunner
from steelyard.model import StoredMessage
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command

_receive = MemberRunner.command_received
_late_s = [0.0]


async def _pass_over(_message: StoredMessage) -> None:
    """Handle a message: there is nothing to do."""


def _receive_late(membership: MemberRunner, server: str | None, command: Command) -> None:
    """Let questions of what is held wait."""
    if _late_s[0] and not command.is_response and command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
        asyncio.get_running_loop().call_later(_late_s[0], _receive, membership, server, command)
    else:
        _receive(membership, server, command)


def main(namesrv: str, *groups: str) -> None:
    """Take part."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(MemberRunner, "command_received", _receive_late))
        for each in groups:
            group, _, topic = each.partition("=")
            consumer = Consumer(namesrv, group=group, start_from="first")
            consumer.handles(topic)(_pass_over)
            stack.enter_context(consumer)
        print("started", flush=True)
        for line in sys.stdin:
            _late_s[0] = float(line)


if __name__ == "__main__":
    main(*sys.argv[1:])
