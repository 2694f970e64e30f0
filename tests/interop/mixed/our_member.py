"""Our consumer as a process that is told what to do: one JSON object a line in, one a line out.

Verbs and words are those of the Java and Go programs beside it, as far as a member of a group needs them: `push` joins,
`push-stop` leaves, and `queues` is told whenever the member holds another set than before. What it is handed is counted
and forgotten.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from steelyard import Consumer
from steelyard.client.config import ClientConfig
from tests.interop.mixed.strategies import strategy_of

_out = threading.Lock()
_consumers: dict[str, Consumer] = {}


def _start(words: dict[str, Any]) -> str:
    name = words["name"]
    consumer = Consumer(
        ClientConfig(words["name_server"], name=name),
        group=words["group"],
        strategy=strategy_of(words["allocate"]),
        start_from="first",
    )
    for topic, _, tags in words["subscriptions"]:
        consumer.handles(topic, tags=None if tags == "*" else tags)(lambda _: None)
    consumer.on_rebalance(
        lambda moved: _print(
            {"event": "queues", "of": name, "at_ms": moved.at_ms, "id": moved.id, "queues": list(moved.queues)}
        )
    )
    consumer.start()
    _consumers[name] = consumer
    return consumer.id


def _stop(words: dict[str, Any]) -> None:
    consumer, name = _consumers.pop(words["name"]), words["name"]

    def leave() -> None:
        consumer.stop()
        _print({"event": "left", "of": name, "at_ms": time.time_ns() // 1_000_000})

    if words.get("later"):
        threading.Thread(target=leave).start()
    else:
        leave()


def _print(what: dict[str, Any]) -> None:
    with _out:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


_VERBS: dict[str, Callable[[dict[str, Any]], object]] = {"push": _start, "push-stop": _stop, "ready": lambda _: None}


def _main() -> None:
    for line in sys.stdin:
        words = json.loads(line)
        try:
            _print({"answer": _VERBS[words["verb"]](words)})
        except Exception as error:  # whatever it is, the other end wants to read it
            _print({"refused": f"{type(error).__name__}: {error}", "code": -1})


if __name__ == "__main__":
    _main()
