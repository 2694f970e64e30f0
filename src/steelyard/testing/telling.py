"""What was there instead, in words: a look as the lines that a failing test prints.

A line for each message, as many as a person reads; then what of the cluster may explain it.
"""

from collections.abc import Iterable, Sequence

from steelyard.client.nearest import nearest
from steelyard.model import StoredMessage
from steelyard.testing.look import Look

__all__ = ["shown", "tell", "tell_circumstances", "tell_story"]

_MOST_MESSAGES = 20
_MOST_BYTES = 80
_MOST_REFUSALS = 5


def tell(look: Look) -> list[str]:
    """Return what a look shows, as lines."""
    return [*tell_story(look), *tell_circumstances(look)]


def tell_story(look: Look) -> list[str]:
    """Return what became of the messages of a topic."""
    lines = _group_lines(look) if look.group is not None else _topic_lines(look)
    delayed = look.delayed
    if delayed:
        lines.append(f"waiting for their time to get into {look.topic}: {len(delayed)}")
        for waits in delayed[:_MOST_MESSAGES]:
            due_s = (waits.due_ms - look.now_ms) / 1000
            lines.append(f"  due in {max(0.0, due_s):.0f} s  {shown(waits.message)}")
    return lines


def tell_circumstances(look: Look) -> list[str]:
    """Return what of the cluster may explain the rest."""
    lines = []
    if look.down:
        lines.append(f"not counted, since they do not run: {', '.join(look.down)}")
    if look.refusals:
        lines.append("refused last:")
        lines += [f"  {refusal}" for refusal in look.refusals[-_MOST_REFUSALS:]]
    return lines


def _topic_lines(look: Look) -> list[str]:
    if look.messages:
        return [f"{look.topic} has {_messages(len(look.messages))}:", *_message_lines(look.messages)]
    if look.topic in look.topics:
        return [f"{look.topic} has no messages"]
    others = ", ".join(look.topics) or "none"
    return [f"there is no topic {look.topic}; there are: {others}{_meant(look.topic, look.topics)}"]


def _group_lines(look: Look) -> list[str]:
    group = look.group
    assert group is not None
    if not look.messages:
        lines = _topic_lines(look)
    else:
        lines = [f"group {group.name} handled {look.handled} of {_messages(len(look.messages))} of {look.topic}:"]
        lines += _message_lines(look.messages, [state.words for state in look.states])
    if group.is_broadcast:
        lines.append(
            f"group {group.name} broadcasts: its members keep their offsets to themselves, so none are counted"
        )
    lines.append(f"members of {group.name} online: {', '.join(group.online) or 'none'}")
    if group.gone:
        lines.append(f"members of {group.name} that were there: {', '.join(group.gone)}")
    elif not group.online:
        lines.append(f"nobody of group {group.name} ever reached this cluster{_meant(group.name, look.groups)}")
    return lines


def _message_lines(messages: Sequence[StoredMessage], words: Iterable[str] = ()) -> list[str]:
    """Return a line for each message, with a word in front if there are words; of too many the first ones."""
    said = [f"{word}  " for word in words] or [""] * len(messages)
    width = max(map(len, said[:_MOST_MESSAGES]), default=0)
    lines = [
        f"  {word:<{width}}{shown(message)}"
        for word, message in zip(said[:_MOST_MESSAGES], messages[:_MOST_MESSAGES], strict=True)
    ]
    more = len(messages) - _MOST_MESSAGES
    return [*lines, f"  and {more} more"] if more > 0 else lines


def shown(message: StoredMessage) -> str:
    """Return one message as a person recognises it.

    >>> from steelyard.model import Queue
    >>> shown(StoredMessage(Queue("orders", "broker-0", 3), 7, b"{}", {"TAGS": "paid", "KEYS": "a b"}))
    "broker-0 queue 3 offset 7  b'{}' tags=paid keys=a,b"
    """
    body = message.body if len(message.body) <= _MOST_BYTES else message.body[:_MOST_BYTES]
    cut = f"… ({len(message.body)} bytes)" if len(message.body) > _MOST_BYTES else ""
    queue = message.queue
    words = [f"{queue.broker} queue {queue.queue_id} offset {message.offset}  {body!r}{cut}"]
    if message.tags:
        words.append(f"tags={message.tags}")
    if message.keys:
        words.append(f"keys={','.join(message.keys)}")
    if message.reconsume_times:
        words.append(f"tries={message.reconsume_times}")
    return " ".join(words)


def _meant(name: str, known: Iterable[str]) -> str:
    close = nearest(name, known)
    return f"; did you mean {close}?" if close else ""


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"
