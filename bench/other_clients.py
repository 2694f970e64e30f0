"""Clients in other languages as loads: Node's, which sends, and Apache's in C++, which hands messages to Python.

Java's are in bench/java_load.py. Both packages lie beside what interop tests fetch: Node's is the one these install,
the other is installed here once. It brings its own library, built in 2019, and there is no other version of it.
"""

import sys
from contextlib import AbstractContextManager
from pathlib import Path

from bench.brokers import Broker
from bench.callback import BODY_BYTES
from bench.load import Load, running_load, running_python
from tests.interop import nodejs
from tests.interop.prepared import DONE, NotReady, home, run_tool

NODE, CPP = "ali-ons", "C++ client"
_CPP_RELEASE = "0.4.4"
_CPP_FOLDER = home() / f"cpp-{_CPP_RELEASE}"
_NODE_PROGRAM = Path(__file__).parent / "node" / "load.js"


def prepare_other_clients() -> None:
    """Install what can be installed, and say what is left out and why."""
    for prepare in (nodejs.prepare, _prepare_cpp):
        try:
            prepare()
        except NotReady as problem:
            print(problem)


def node_producer(broker: Broker, topic: str, messages: int, in_flight: int) -> AbstractContextManager[Load]:
    """Send so many messages, so many of them at a time; raise NotReady where the client is not installed."""
    node, _, folder = nodejs.command()
    words = [folder, broker.name_server, topic, str(messages), str(in_flight), str(BODY_BYTES)]
    return running_load(Load, [node, str(_NODE_PROGRAM), *words])


def cpp_consumer(broker: Broker, topic: str, group: str, messages: int) -> AbstractContextManager[Load]:
    """Be handed so many messages, and end; raise NotReady where the client is not installed."""
    if not (_CPP_FOLDER / DONE).exists():
        raise NotReady(f"the {CPP} is not installed")
    return running_python("bench.cpp_load", [broker.name_server, topic, group, str(messages)], _CPP_FOLDER)


def _prepare_cpp() -> None:
    if (_CPP_FOLDER / DONE).exists():
        return
    print(f"installing the {CPP}", flush=True)
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(_CPP_FOLDER)]
    run_tool(sys.executable, [*pip, f"rocketmq=={_CPP_RELEASE}"], f"the {CPP} is left out: pip cannot install it")
    look = ["-c", f"import sys; sys.path.insert(0, {str(_CPP_FOLDER)!r}); import rocketmq.client"]
    run_tool(sys.executable, look, f"the {CPP} is left out: its library does not load")
    (_CPP_FOLDER / DONE).touch()
