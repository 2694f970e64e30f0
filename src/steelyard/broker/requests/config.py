"""The broker's settings under Java's names: 25, 26.

26 GET_BROKER_CONFIG      ``name=value`` lines, with the version of the settings in the header. All names that tools
                          read are there, also those without an effect here
25 UPDATE_BROKER_CONFIG   changes some of them, at once and all together. A setting that cannot be changed while the
                          broker runs is refused (16), unless it has that value already; an invalid value is a 29

A change lasts until the next start, when the command line counts again. Java ignores unknown names; here they are
refused, since their author believes that they count.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from steelyard.broker.options import DEFAULT_TOPIC_QUEUES, BrokerOptions
from steelyard.broker.request_errors import invalid_parameter, request_error
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.table_limits import next_data_version
from steelyard.errors import ServerError
from steelyard.model.reserved_names import TRACE_TOPIC
from steelyard.store.tags_code import DELAY_LEVELS_MS
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.common import decode_settings, encode_settings
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.admin import GetBrokerConfigResponse

_HOUR_MS = 3_600_000
_RETENTION_SETTING = "fileReservedTime"
_FOREVER = "-1"
_MAX_HOURS = 24 * 36_500
_MAX_DIGITS = 12
_UNITS = ((_HOUR_MS, "h"), (60_000, "m"), (1_000, "s"))


class _SettingType(NamedTuple):
    """How a setting is parsed (None: invalid) and formatted."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]
    expects: str


def _whole_number_type(minimum: int, maximum: int) -> _SettingType:
    def read(text: str) -> int | None:
        known = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
        return int(text) if known and minimum <= int(text) <= maximum else None

    return _SettingType(read, str, f"{minimum} to {maximum}")


_BOOLEAN = _SettingType({"true": True, "false": False}.get, lambda value: "true" if value else "false", "true or false")
_FLUSH_NAMES = {"SYNC_FLUSH": "sync", "ASYNC_FLUSH": "async"}
_FLUSH = _SettingType(
    _FLUSH_NAMES.get, {value: name for name, value in _FLUSH_NAMES.items()}.__getitem__, "SYNC_FLUSH or ASYNC_FLUSH"
)
_TIME_MS = _whole_number_type(100, 24 * _HOUR_MS)

_PERMISSION = _SettingType({"4": 4, "6": 6}.get, str, "6, or 4 for read-only")

_CHANGEABLE: Mapping[str, tuple[str, _SettingType]] = {
    "autoCreateSubscriptionGroup": ("auto_create_groups", _BOOLEAN),
    "autoCreateTopicEnable": ("auto_create_topics", _BOOLEAN),
    "brokerPermission": ("permission", _PERMISSION),
    "enablePropertyFilter": ("property_filter", _BOOLEAN),
    "flushConsumerOffsetInterval": ("offsets_interval_ms", _TIME_MS),
    "flushDiskType": ("flush", _FLUSH),
    "flushIntervalCommitLog": ("flush_interval_ms", _whole_number_type(10, 60_000)),
    "maxMessageSize": ("max_message_bytes", _whole_number_type(1_024, 4 * 1024 * 1024)),
    "maxTransferCountOnMessageInMemory": ("max_pull_messages", _whole_number_type(1, 65_536)),
    "notifyConsumerIdsChangedEnable": ("notices", _BOOLEAN),
    "syncFlushTimeout": ("flush_wait_ms", _whole_number_type(10, 60_000)),
    "transactionCheckInterval": ("transaction_check_ms", _TIME_MS),
    "transactionCheckMax": ("transaction_checks", _whole_number_type(1, 1_000)),
    "transactionTimeOut": ("transaction_timeout_ms", _TIME_MS),
}
"""By Java's name: our option of the same meaning."""


def _get_config(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    version, keep_ms = encode_body(state.config_version).decode(), state.store.options.keep_ms
    settings = _fixed_settings(state)
    settings |= {name: kind.write(getattr(state.options, option)) for name, (option, kind) in _CHANGEABLE.items()}
    settings[_RETENTION_SETTING] = _FOREVER if keep_ms is None else str(keep_ms // _HOUR_MS)
    return response_to(
        request, fields=GetBrokerConfigResponse(version), body=encode_settings(dict(sorted(settings.items())))
    )


def _fixed_settings(state: BrokerCoreState) -> dict[str, str]:
    """Return the settings that cannot change while the broker runs, and those that tools only read."""
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
        "messageDelayLevel": " ".join(
            next(f"{span_ms // unit_ms}{name}" for unit_ms, name in _UNITS if span_ms >= unit_ms)
            for span_ms in DELAY_LEVELS_MS
        ),
        "msgTraceTopicName": TRACE_TOPIC,
        "realTimeNotifyConsumerChange": "true",
        "regionId": options.region,
        "slaveReadEnable": "false",
        "timerMaxDelaySec": str(options.timer_max_ms // 1_000),
        "timerWheelEnable": "true",
        "traceOn": "true",
        "traceTopicEnable": _BOOLEAN.write(options.trace_topic),
        "useServerSideResetOffset": "true",
        "useTLS": "false",
    }


def _update_config(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    changes = decode_settings(request.body)
    hours = changes.pop(_RETENTION_SETTING, None)
    fixed = _fixed_settings(state)
    options = _apply_changes(
        state.options, {name: text for name, text in changes.items() if fixed.get(name) != text.strip()}
    )
    if hours is not None:
        state.store.set_retention(_parse_retention(hours))
    if options.is_writable:
        state.write_disabled_ms = None
    elif state.write_disabled_ms is None:
        state.write_disabled_ms = now_ms
    state.options = options
    state.topics.apply_options(options, now_ms)
    state.groups.apply_options(options)
    state.config_version = next_data_version(state.config_version, now_ms)
    return response_to(request)


def _apply_changes(options: BrokerOptions, changes: Mapping[str, str]) -> BrokerOptions:
    values: dict[str, Any] = {}
    for name, text in changes.items():
        if name not in _CHANGEABLE:
            known = ", ".join(sorted((*_CHANGEABLE, _RETENTION_SETTING)))
            remark = f"{name[:80]!r} cannot be changed while the broker runs; these can: {known}"
            raise request_error(ResponseCode.NO_PERMISSION, remark)
        option, kind = _CHANGEABLE[name]
        value = kind.read(text.strip())
        if value is None:
            raise _invalid_value(name, text, kind.expects)
        values[option] = value
    return replace(options, **values) if values else options


def _parse_retention(text: str) -> int | None:
    if text.strip() == _FOREVER:
        return None
    kind = _whole_number_type(1, _MAX_HOURS)
    hours: int | None = kind.read(text.strip())
    if hours is None:
        raise _invalid_value(_RETENTION_SETTING, text, f"{kind.expects} hours, or {_FOREVER} to keep everything")
    return hours * _HOUR_MS


def _invalid_value(name: str, text: str, expects: str) -> ServerError:
    return invalid_parameter(f"{name} cannot be {text[:80]!r}: give {expects}")


HANDLERS: Mapping[int, RequestHandler] = {
    Code.GET_BROKER_CONFIG: _get_config,
    Code.UPDATE_BROKER_CONFIG: _update_config,
}
