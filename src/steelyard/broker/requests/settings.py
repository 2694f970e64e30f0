"""The broker's settings as Apache's tools know them: 25, 26.

26 GET_BROKER_CONFIG      ``name=value`` lines under Java's names, with the version of the settings in the header. All
                          names that tools read are there, also those that nothing here goes by
25 UPDATE_BROKER_CONFIG   changes some of them, at once and all together: a name that cannot be changed while the broker
                          runs is refused by its name (16), unless its value is the one it has; a value that cannot be
                          is refused with the name (29)

A change lasts until the broker is started again: then what it is started with counts. Java ignores names that it does
not know; here they are refused, since whoever wrote one believes that it counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from steelyard.broker.handlers import Handler
from steelyard.broker.options import DEFAULT_TOPIC_QUEUES, BrokerOptions
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.broker.versions import next_version
from steelyard.errors import ServerError
from steelyard.model.names import TRACE_TOPIC
from steelyard.store.marks import DELAY_LEVELS_MS
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.settings_text import decode_settings, encode_settings
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.admin import BrokerConfigAnswer
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_HOUR_MS = 3_600_000
_KEEP = "fileReservedTime"
_FOREVER = "-1"
_MOST_HOURS = 24 * 36_500
_DIGITS = 12
_UNITS = ((_HOUR_MS, "h"), (60_000, "m"), (1_000, "s"))


class _Kind(NamedTuple):
    """How a setting's text is read (None: it cannot be) and written."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]
    expects: str


def _whole(least: int, most: int) -> _Kind:
    def read(text: str) -> int | None:
        known = text.isascii() and text.isdigit() and len(text) <= _DIGITS
        return int(text) if known and least <= int(text) <= most else None

    return _Kind(read, str, f"{least} to {most}")


_TRUTH = _Kind({"true": True, "false": False}.get, lambda value: "true" if value else "false", "true or false")
_FLUSH_NAMES = {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}
_FLUSH = _Kind(
    _FLUSH_NAMES.get,
    {value: name for name, value in _FLUSH_NAMES.items()}.__getitem__,
    "SYNC_FLUSH or ASYNC_FLUSH",
)
_TIME_MS = _whole(100, 24 * _HOUR_MS)

_PERMISSION = _Kind({"4": 4, "6": 6}.get, str, "6, or 4 to be only read from")

_CHANGEABLE: Mapping[str, tuple[str, _Kind]] = {
    "autoCreateSubscriptionGroup": ("auto_create_groups", _TRUTH),
    "autoCreateTopicEnable": ("auto_create_topics", _TRUTH),
    "brokerPermission": ("permission", _PERMISSION),
    "enablePropertyFilter": ("property_filter", _TRUTH),
    "flushConsumerOffsetInterval": ("offsets_interval_ms", _TIME_MS),
    "flushDiskType": ("flush", _FLUSH),
    "flushIntervalCommitLog": ("flush_interval_ms", _whole(10, 60_000)),
    "maxMessageSize": ("max_message_bytes", _whole(1_024, 4 * 1024 * 1024)),
    "maxTransferCountOnMessageInMemory": ("max_pull_messages", _whole(1, 65_536)),
    "notifyConsumerIdsChangedEnable": ("notices", _TRUTH),
    "syncFlushTimeout": ("flush_wait_ms", _whole(10, 60_000)),
    "transactionCheckInterval": ("transaction_check_ms", _TIME_MS),
    "transactionCheckMax": ("transaction_checks", _whole(1, 1_000)),
    "transactionTimeOut": ("transaction_timeout_ms", _TIME_MS),
}
"""By Java's name, our option of the same meaning."""


def _get(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    version = encode_body(state.settings_version).decode()
    return answer_to(request, fields=BrokerConfigAnswer(version), body=encode_settings(_settings(state)))


def _settings(state: State) -> dict[str, str]:
    options = state.options
    changeable = {name: kind.write(getattr(options, option)) for name, (option, kind) in _CHANGEABLE.items()}
    return dict(sorted((_fixed(state) | changeable | {_KEEP: _kept_hours(state)}).items()))


def _fixed(state: State) -> dict[str, str]:
    """Return the settings that do not change while the broker runs, and those that tools only read."""
    options, store = state.options, state.store.options
    return {
        "brokerClusterName": options.cluster,
        "brokerIP1": options.host,
        "brokerId": str(options.broker_id),
        "brokerName": options.name,
        "brokerRole": "ASYNC_MASTER",
        "clientCallbackExecutorThreads": "1",
        "defaultTopicQueueNums": str(options.default_topic_queues or DEFAULT_TOPIC_QUEUES),
        "filterServerNums": "0",
        "listenPort": str(options.port),
        "longPollingEnable": "true",
        "mappedFileSizeCommitLog": str(store.segment_bytes),
        "messageDelayLevel": " ".join(map(_span, DELAY_LEVELS_MS)),
        "msgTraceTopicName": TRACE_TOPIC,
        "realTimeNotifyConsumerChange": "true",
        "regionId": options.region,
        "slaveReadEnable": "false",
        "timerMaxDelaySec": str(options.timer_max_ms // 1_000),
        "timerWheelEnable": "true",
        "traceOn": "true",
        "traceTopicEnable": _TRUTH.write(options.trace_topic),
        "useServerSideResetOffset": "true",
        "useTLS": "false",
    }


def _span(span_ms: int) -> str:
    return next(f"{span_ms // unit_ms}{name}" for unit_ms, name in _UNITS if span_ms >= unit_ms)


def _kept_hours(state: State) -> str:
    keep_ms = state.store.options.keep_ms
    return _FOREVER if keep_ms is None else str(keep_ms // _HOUR_MS)


def _change(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    changes = decode_settings(request.body)
    hours = changes.pop(_KEEP, None)
    fixed = _fixed(state)
    options = _changed(state.options, {name: text for name, text in changes.items() if fixed.get(name) != text.strip()})
    if hours is not None:
        state.store.keep_for(_keep_ms(hours))
    if options.is_writable:
        state.closed_ms = None
    elif state.closed_ms is None:
        state.closed_ms = now_ms
    state.options = options
    state.topics.follow(options, now_ms)
    state.groups.follow(options)
    state.settings_version = next_version(state.settings_version, now_ms)
    return answer_to(request)


def _changed(options: BrokerOptions, changes: Mapping[str, str]) -> BrokerOptions:
    wanted: dict[str, Any] = {}
    for name, text in changes.items():
        if name not in _CHANGEABLE:
            known = ", ".join(sorted((*_CHANGEABLE, _KEEP)))
            remark = f"{name[:80]!r} cannot be changed while the broker runs; these can: {known}"
            raise refusal(ResponseCode.NO_PERMISSION, remark)
        option, kind = _CHANGEABLE[name]
        value = kind.read(text.strip())
        if value is None:
            raise _impossible(name, text, kind.expects)
        wanted[option] = value
    return replace(options, **wanted) if wanted else options


def _keep_ms(text: str) -> int | None:
    if text.strip() == _FOREVER:
        return None
    kind = _whole(1, _MOST_HOURS)
    hours: int | None = kind.read(text.strip())
    if hours is None:
        raise _impossible(_KEEP, text, f"{kind.expects} hours, or {_FOREVER} to keep everything")
    return hours * _HOUR_MS


def _impossible(name: str, text: str, expects: str) -> ServerError:
    return refusal(ResponseCode.INVALID_PARAMETER, f"{name} cannot be {text[:80]!r}: give {expects}")


HANDLERS: Mapping[int, Handler] = {
    Code.GET_BROKER_CONFIG: _get,
    Code.UPDATE_BROKER_CONFIG: _change,
}
