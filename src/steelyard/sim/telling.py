"""Facts and commands in one line each, for people who read a trace."""

from msgspec import structs

from steelyard.errors import SteelyardError
from steelyard.model import Queue
from steelyard.sim.facts import Fact
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command

__all__ = ["tell_command", "tell_fact"]

_TOPIC, _BROKER, _QUEUE_ID = ("topic", "b"), ("bname", "brokerName", "n"), ("queueId", "e")
_TOLD = (
    "queueOffset",
    "commitOffset",
    "offset",
    "msgId",
    "nextBeginOffset",
    "consumerGroup",
    "clientId",
    "lockEpoch",
    "delayLevel",
)
"""Fields that tell one command from another of its kind, in the order in which they are read."""

_MOST_LETTERS = 60
_REQUESTS = {int(code): code.name for code in RequestCode}
_RESPONSES = {int(code): code.name for code in ResponseCode}


def tell_command(command: Command) -> str:
    """Say what a command is and what it is about.

    >>> tell_command(Command(11, {"topic": "orders", "queueId": "0", "queueOffset": "41"}, opaque=7))
    '#7 PULL_MESSAGE orders:0 queueOffset=41'
    >>> tell_command(Command(0, {"nextBeginOffset": "42"}, b"abc", opaque=7, flag=1))
    '#7 answer SUCCESS nextBeginOffset=42 +3 bytes'
    """
    names, kind = (_RESPONSES, "answer ") if command.is_answer else (_REQUESTS, "")
    words = [f"#{command.opaque}", kind + names.get(command.code, str(command.code))]
    try:
        fields = command.texts()
    except SteelyardError as error:
        return " ".join((*words, f"unreadable: {error}"))
    topic = _first(fields, _TOPIC)
    if topic:
        broker, queue_id = _first(fields, _BROKER), _first(fields, _QUEUE_ID)
        words.append(topic + (f"@{broker}" if broker else "") + (f":{queue_id}" if queue_id else ""))
    words += [f"{name}={fields[name][:_MOST_LETTERS]}" for name in _TOLD if name in fields]
    if command.body or command.parts:
        words.append(f"+{len(command.body) + sum(map(len, command.parts))} bytes")
    if command.remark:
        words.append(f"({command.remark[:_MOST_LETTERS]})")
    return " ".join(words)


def _first(fields: dict[str, str], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if name in fields), "")


def tell_fact(fact: Fact) -> str:
    """Say what a fact says, without its time.

    >>> from steelyard.sim.facts import Registered
    >>> tell_fact(Registered(at_ms=12, broker="broker-a", group="billing", member="m1"))
    '· Registered broker=broker-a group=billing member=m1'
    """
    named = ((name, getattr(fact, name)) for name in structs.asdict(fact) if name != "at_ms")
    return " ".join(("·", type(fact).__name__, *(f"{name}={_text(value)}" for name, value in named)))


def _text(value: object) -> str:
    if isinstance(value, Queue):
        return str(value)
    if isinstance(value, tuple):
        return "[" + " ".join(map(_text, value)) + "]"
    return str(value)
