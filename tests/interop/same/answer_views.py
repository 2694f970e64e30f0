"""What is compared of an answer: every part of it under a path, and what differs from run to run only by its kind.

``code`` and ``type``; ``ext.queueOffset``; ``body.table.putTps``; ``body[2].properties.TAGS`` for the third message of
a pull. Maps by queue are told by topic and queue, lists of texts by their texts, as sets.
"""

import re
from collections.abc import Mapping

import msgspec

from steelyard.wire.bodies.common import decode_settings
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from steelyard.wire.java_json import to_standard_json
from steelyard.wire.properties import decode_properties
from steelyard.wire.record import MessageRecord, decode_records

View = Mapping[str, object]
REMARK = "(remark)"

_RECORDS = frozenset({Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE, Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID})
_RECORDS_ASKED = frozenset({Code.CHECK_TRANSACTION_STATE, Code.CONSUME_MESSAGE_DIRECTLY})
_SETTINGS = frozenset({Code.GET_BROKER_CONFIG, Code.GET_NAMESRV_CONFIG})

# Times, places, speeds and versions: of these only the kind is compared.
_VOLATILE = re.compile(
    r"\w*[tT]ime[sS]tamp(Str)?|delayTime|popTime|\w*[tT]ps|avgpt|sum|version|dataVersion|subVersion|counter|"
    r"msgId|transactionId|offsetMsgId|recallHandle|physicOffset|physicSize|indexLastUpdate\w+|properties|"
    r"\w+Addr|remoteIP|bornHost|storeHost|listenPort|clientCallbackExecutorThreads|\w*(Path|Dir|Home)\w*|"
    r"UNIQ_KEY|\w*ORIGIN_MESSAGE_ID|TIMER_\w+_MS|PUSH_REPLY_TIME"
)
_TIME = re.compile(r"\w*[tT]ime\w*")
_SETS = re.compile(r"(Set|Datas|Assignments)$")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+")


def view_of(request_code: int, answer: Command) -> dict[str, object]:
    """Return the parts of an answer by their paths; the remark is there to be read, not to be compared."""
    view: dict[str, object] = {"code": answer.code, "type": answer.header_type.name, "version": answer.version}
    if answer.remark:
        view[REMARK] = answer.remark[:200]
    for name, text in answer.texts().items():
        view[f"ext.{name}"] = _steady(name, text)
    if answer.body:
        is_records = request_code in (_RECORDS if answer.is_response else _RECORDS_ASKED)
        _add_body(view, request_code, answer.body, is_records=is_records)
    return view


def _add_body(view: dict[str, object], request_code: int, body: bytes, *, is_records: bool) -> None:
    if is_records:
        for place, record in enumerate(decode_records(body, check_crc=True)):
            _add(view, f"body[{place}]", _reported(record))
        return
    if request_code in _SETTINGS:
        view.update({f"body.{name}": _steady(name, text) for name, text in decode_settings(body).items()})
        return
    if body[:1] not in b"{[":
        view["body"] = body.decode(errors="replace")
        return
    standard = to_standard_json(body, "body")
    if request_code == Code.GET_BROKER_RUNTIME_INFO:
        view.update({f"body.table.{name}": "told" for name in msgspec.json.decode(standard)["table"]})
        return
    view["body"] = "standard JSON" if standard == body else "Java's JSON"
    _add(view, "body", msgspec.json.decode(standard))


def _reported(record: MessageRecord) -> dict[str, object]:
    return {
        "topic": record.topic.decode(),
        "queueId": record.queue_id,
        "offset": record.offset,
        "body": record.body[:80].decode(errors="replace"),
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "reconsumeTimes": record.reconsume_times,
        "prepared": record.prepared_offset > 0,
        "crc": record.crc,
        "properties": decode_properties(record.properties),
        "ends": record.properties[-1:].hex(),
    }


def _add(view: dict[str, object], path: str, value: object) -> None:
    if isinstance(value, dict):
        view[f"{path}.#"] = "object"
        for name, each in value.items():
            inside = f"{path}.{name}"
            if isinstance(each, dict | list):
                _add(view, inside, each)
            else:
                view[inside] = _steady(name, each)
    elif isinstance(value, list):
        _add_list(view, path, value)
    else:
        view[path] = _steady("", value)


def _add_list(view: dict[str, object], path: str, values: list[object]) -> None:
    view[f"{path}.#"] = "list"
    if all(isinstance(each, str) for each in values):
        view.update({f"{path}[{_steady('', each)}]": "listed" for each in values})
        return
    for place, each in enumerate(sorted(values, key=_order) if _SETS.search(path) else values):
        match each:
            case [{"topic": topic, "queueId": queue_id, "brokerName": broker}, value]:
                _add(view, f"{path}[{topic}@{broker}:{queue_id}]", value)
            case {"messageQueue": {"queueId": queue_id}} if _SETS.search(path):
                _add(view, f"{path}[{queue_id}]", each)
            case dict() if path.endswith("consumeStatsList"):
                _add(view, path, each)
            case _:
                _add(view, f"{path}[{place}]", each)


def _order(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _steady(name: str, value: object) -> object:
    """Return a value, or only its kind if it cannot be the same twice."""
    if value is not None and _VOLATILE.fullmatch(name):
        return f"<{_kind(name, value)}>"
    return _ADDRESS.sub("<address>", value) if isinstance(value, str) else value


def _kind(name: str, value: object) -> str:
    if isinstance(value, str):
        return "number in text" if re.fullmatch(r"-?\d+", value) else "text" if value else "empty text"
    return "no time" if _TIME.fullmatch(name) and value in (0, -1) else type(value).__name__
