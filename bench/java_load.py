"""Java's own benchmark programs as the load: the same client, the same messages, whoever the broker is.

They are Apache's (`org.apache.rocketmq.example.benchmark`, 5.5.0), run by bench/java/Launch.java for the sake of the
header type. What they count as sent is what a broker answered with "stored"; what failed, they tell on their output.
"""

import re
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bench.brokers import APACHE_RELEASE, Broker
from bench.load import Load, running_load
from tests.interop.jars import RELEASE_5, client_class_path, server_class_path
from tests.interop.prepared import NotReady

__all__ = ["BINARY", "JSON", "JavaLoad", "NotReady", "batch_producer", "check_java", "consumer", "producer"]

BINARY, JSON = "ROCKETMQ", "JSON"
_LAUNCH = Path(__file__).parent / "java" / "Launch.java"
_PROGRAMS = "org.apache.rocketmq.example.benchmark"
_MEMORY = ("-Xms1g", "-Xmx1g")
_BODY_BYTES = 1024
_REPORT_MS = 1000
_FAILED = re.compile(r"(?:Send|Response) Failed: (\d+)")
_TOTAL = re.compile(r"\[Complete\] Send Total: (\d+)")


def check_java() -> None:
    """Raise NotReady, with a sentence, if Java or Apache's jars are not there."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        raise NotReady(f"there is no {' and no '.join(missing)} on the PATH")
    client_class_path(RELEASE_5)
    server_class_path(APACHE_RELEASE)


class JavaLoad(Load):
    """One of the programs while it runs."""

    @property
    def failed(self) -> int:
        """How many sends failed, as far as it has told."""
        lines = [line for line in self.output().splitlines() if "Failed:" in line]
        return sum(map(int, _FAILED.findall(lines[-1]))) if lines else 0

    @property
    def total(self) -> int:
        """How many sends it made in all; it tells when it is done."""
        found = _TOTAL.search(self.output())
        return int(found[1]) if found else 0


def producer(
    broker: Broker, topic: str, *, threads: int, messages: int, headers: str
) -> AbstractContextManager[JavaLoad]:
    """Send so many messages from so many threads, each of which waits for the answer before it sends the next."""
    words = ["-w", str(threads), "-q", str(messages), "-s", str(_BODY_BYTES)]
    return _running("Producer", headers, broker, topic, words)


def batch_producer(
    broker: Broker, topic: str, *, threads: int, batch: int, headers: str
) -> AbstractContextManager[JavaLoad]:
    """Send batches until stopped."""
    words = ["-w", str(threads), "-b", str(batch), "-s", str(_BODY_BYTES)]
    return _running("BatchProducer", headers, broker, topic, words)


def consumer(broker: Broker, topic: str, group: str, *, headers: str) -> AbstractContextManager[JavaLoad]:
    """Be handed messages until stopped."""
    return _running("Consumer", headers, broker, topic, ["-g", group])


def _running(
    program: str, headers: str, broker: Broker, topic: str, words: Sequence[str]
) -> AbstractContextManager[JavaLoad]:
    # Its logs go to the home that it is told of, which is the directory that it runs in.
    java = [shutil.which("java") or "java", *_MEMORY, "-Duser.home=.", "-cp", client_class_path(RELEASE_5)]
    asked = ["-n", broker.name_server, "-t", topic, "-ri", str(_REPORT_MS), *words]
    return running_load(JavaLoad, [*java, str(_LAUNCH), headers, f"{_PROGRAMS}.{program}", *asked])
