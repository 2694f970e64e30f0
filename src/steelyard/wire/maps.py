"""Maps whose keys are not text: by a number, and by a queue. JSON has neither, so how they are read is written here.

`ById` is read from an object whose keys are numbers in text. `ByQueue` is read from an array of pairs of a queue and a
value (gson's form, and what `json_text.standard_json` makes of fastjson's), or from an object whose keys are texts that
hold the JSON of a queue (older peers). Both are written as Java writes them: a queue as a key always raw, a number raw
or quoted as the writer is told. `read_map` and `map_writer` are what msgspec calls for the two.
"""

from collections.abc import Callable, Iterator, Mapping
from types import GenericAlias
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from steelyard.errors import ConfigurationError
from steelyard.model import Queue
from steelyard.wire.body import Body
from steelyard.wire.numbers import Int32, Int64

__all__ = ["ById", "ByQueue", "QueueRef", "map_writer", "read_map"]

K = TypeVar("K")
V_co = TypeVar("V_co", covariant=True)


class QueueRef(Body, frozen=True, kw_only=True):
    """A queue as an object (Java: MessageQueue).

    >>> QueueRef.of(Queue("orders", "broker-a", 3)).queue
    Queue(topic='orders', broker='broker-a', queue_id=3)
    """

    broker_name: str
    queue_id: Int32
    topic: str

    @property
    def queue(self) -> Queue:
        """The queue itself."""
        return Queue(self.topic, self.broker_name, self.queue_id)

    @classmethod
    def of(cls, queue: Queue) -> "QueueRef":
        """Make the object for a queue."""
        return cls(broker_name=queue.broker, queue_id=queue.queue_id, topic=queue.topic)


class _Frozen(Mapping[K, V_co]):
    """A mapping that keeps the order it was made in and cannot be changed."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, V_co] | None = None) -> None:
        self._entries = dict(entries or {})

    def __getitem__(self, key: K) -> V_co:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._entries!r})"


class ById(_Frozen[int, V_co]):
    """A map by number: a broker's id, a queue's number, a delay level.

    >>> ById({0: "127.0.0.1:10911"})[0]
    '127.0.0.1:10911'
    """

    __slots__ = ()


class ByQueue(_Frozen[Queue, V_co]):
    """A map by queue.

    >>> ByQueue({Queue("orders", "broker-a", 3): 41})[Queue("orders", "broker-a", 3)]
    41
    """

    __slots__ = ()


_queue_ref = msgspec.json.Decoder(QueueRef, strict=False)


def read_map(kind: Any, found: object) -> object:
    """Make a `ById` or `ByQueue` of plain JSON values, for msgspec's ``dec_hook``.

    >>> read_map(ById[int], {"0": "12"})
    ById({0: 12})
    >>> read_map(ByQueue[int], [[{"topic": "orders", "brokerName": "broker-a", "queueId": 3}, 41]])
    ByQueue({Queue(topic='orders', broker='broker-a', queue_id=3): 41})
    """
    (value,) = get_args(kind)
    if get_origin(kind) is ById:
        return ById(_converted(found, GenericAlias(dict, (Int64, value))))
    if isinstance(found, dict):
        found = [(_queue_ref.decode(key), each) for key, each in found.items()]
    pairs = _converted(found, GenericAlias(list, (GenericAlias(tuple, (QueueRef, value)),)))
    return ByQueue({ref.queue: each for ref, each in pairs})


def _converted(found: object, kind: Any) -> Any:
    return msgspec.convert(found, kind, strict=False, str_keys=True, dec_hook=read_map)


def map_writer(*, quoted_ids: bool) -> msgspec.json.Encoder:
    """Return a writer that knows both maps; numbers as keys are quoted or raw.

    >>> map_writer(quoted_ids=False).encode(ById({0: "a"})), map_writer(quoted_ids=True).encode(ById({0: "a"}))
    (b'{0:"a"}', b'{"0":"a"}')
    """
    number = b'"%d"' if quoted_ids else b"%d"

    def write(value: object) -> msgspec.Raw:
        if isinstance(value, ById):
            return _object(value, lambda key: number % key)
        if isinstance(value, ByQueue):
            return _object(value, lambda key: encoder.encode(QueueRef.of(key)))
        raise ConfigurationError(
            f"a {type(value).__name__} cannot be written into a body", next_step="make it of the types that bodies have"
        )

    def _object(entries: Mapping[K, object], key_text: Callable[[K], bytes]) -> msgspec.Raw:
        pairs = (b"%b:%b" % (key_text(key), encoder.encode(value)) for key, value in entries.items())
        return msgspec.Raw(b"{%b}" % b",".join(pairs))

    encoder = msgspec.json.Encoder(enc_hook=write)
    return encoder
