"""Brokers of this process that refuse the pulls of one topic, for as long as a test wants."""

from typing import Any

import pytest

from steelyard.broker.parking import Ask
from steelyard.broker.pulling import look
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command

__all__ = ["Refusing"]


class Refusing:
    """Answers the next pulls of a topic with a code: so many of them, or all if that is None."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, topic: str, code: ResponseCode, left: int | None = None
    ) -> None:
        self._topic, self._code, self.left = topic, code, left
        monkeypatch.setattr("steelyard.broker.requests.pull.look", self._look)

    def _look(self, state: State, ask: Ask, *rest: Any) -> Command:
        if ask.topic != self._topic or self.left == 0:
            return look(state, ask, *rest)
        if self.left is not None:
            self.left -= 1
        raise refusal(self._code, "no pull of it is good")
