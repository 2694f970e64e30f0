"""Brokers of this process that refuse the pulls of one topic, for as long as a test wants."""

from typing import Any

import pytest

from steelyard.broker.fetch import read_messages
from steelyard.broker.held_pulls import PullSpec
from steelyard.broker.request_errors import request_error
from steelyard.broker.state import BrokerCoreState
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command


class RefusedPulls:
    """Answers the next pulls of a topic with a code: so many of them, or all if that is None."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, topic: str, code: ResponseCode, left: int | None = None
    ) -> None:
        self._topic, self._code, self.left = topic, code, left
        monkeypatch.setattr("steelyard.broker.requests.pull.read_messages", self._answer_pull)

    def _answer_pull(self, state: BrokerCoreState, ask: PullSpec, *rest: Any) -> Command:
        if ask.topic != self._topic or self.left == 0:
            return read_messages(state, ask, *rest)
        if self.left is not None:
            self.left -= 1
        raise request_error(self._code, "no pull of it is good")
