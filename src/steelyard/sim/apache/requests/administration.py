"""What is left: 17 makes a topic, 28 tells how long the broker has been running, 46 checks a subscription."""

from collections.abc import Mapping

from steelyard.sim.apache.state import Handler, State
from steelyard.sim.line import Line
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import CreateTopic

__all__ = ["HANDLERS"]


def _make_topic(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    header = request.header(CreateTopic)
    state.topics.put(header.topic, header.read_queue_nums)
    state.hands.changed()
    return state.answer(request)


def _runtime(state: State, request: Command, _line: Line, now_ms: int) -> Command:
    table = {
        "bootTimestamp": str(state.started_ms),
        "brokerVersion": str(state.release.server_version),
        "runtime": _duration(now_ms - state.started_ms),
    }
    return state.answer(request, body=encode_body(TextTable(table=table)))


def _duration(passed_ms: int) -> str:
    """Return a time as Java prints it.

    >>> _duration(96_000)
    '[ 0 days, 0 hours, 1 minutes, 36 seconds ]'
    """
    minutes, seconds = divmod(passed_ms // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _check(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    return state.answer(request)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: _make_topic,
    RequestCode.GET_BROKER_RUNTIME_INFO: _runtime,
    RequestCode.CHECK_CLIENT_CONFIG: _check,
}
