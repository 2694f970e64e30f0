"""What a handler of requests is: a function of the state, one command, who sent it, and the time."""

from collections.abc import Callable
from typing import TypeAlias

from steelyard.broker.state import State
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["Handler"]

Handler: TypeAlias = Callable[[State, Command, Peer, int], Command | None]
"""Takes (state, request, peer, now_ms) and returns the answer, or None where it comes later or never.

It says no by raising one of the errors of `steelyard.errors`; the core makes the answer of it. What it wants sent to
others goes through `State.post` and `State.tell`, an answer that has to wait for the log through `State.acknowledge`.
"""
