"""Apache Kafka beside which topics on Spark are measured: one node on a real disk, and Spark's own connector for it.

Both come as jars by Maven, into the virtual environment like everything else that is fetched. The node listens at free
ports of this machine, is its own controller, and ends by its own handle; its files go with it.
"""

import shutil
import signal
import socket
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from tests.interop.prepared import DONE, NotReady, digest, home, run_tool

KAFKA_RELEASE, CONNECTOR_RELEASE = "4.3.1", "4.2.0"
_JAVA = Path(__file__).parent / "java"
_NODE, _CONNECTOR = _JAVA / "kafka" / "pom.xml", _JAVA / "connector" / "pom.xml"
_MEMORY = ("-Xms1g", "-Xmx2g", "-XX:+UseG1GC")
# Sixteen bytes, as Kafka writes them.
_CLUSTER = urlsafe_b64encode(b"steelyard-bench!").decode().rstrip("=")
_START_S = 60
_STOP_S = 30

# Everything else is as Kafka has it by itself: answers from the page cache, segments of 1 GiB. On a busy machine it may
# be silent for a while, and should not be shut out for that.
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
broker.session.timeout.ms=120000
"""


@dataclass(frozen=True, slots=True)
class Kafka:
    """A node that runs."""

    bootstrap: str
    pid: int


def prepare_kafka() -> None:
    """Fetch what is missing; raise NotReady, with a sentence, where Java or Maven is."""
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        raise NotReady(f"there is no {' and no '.join(missing)} on the PATH")
    for pom, release, what in (
        (_NODE, KAFKA_RELEASE, "Apache Kafka"),
        (_CONNECTOR, CONNECTOR_RELEASE, "Spark's Kafka connector"),
    ):
        folder = _folder(pom, release)
        if (folder / DONE).exists():
            continue
        print(f"fetching {what} {release} with Maven", flush=True)
        asked = ["-f", str(pom), f"-Drelease={release}", f"-DoutputDirectory={folder}"]
        words = ["--batch-mode", "--quiet", "dependency:copy-dependencies", *asked]
        run_tool("mvn", words, f"Maven cannot fetch {what} {release}")
        (folder / DONE).touch()


def connector_jars() -> list[Path]:
    """Return the connector and what it needs beside Spark's own jars."""
    return sorted(_folder(_CONNECTOR, CONNECTOR_RELEASE).glob("*.jar"))


def _folder(pom: Path, release: str) -> Path:
    # Named after what is asked for: another pom is another folder.
    return home() / f"bench-{pom.parent.name}-{release}-{digest(pom)}"


@contextmanager
def running_kafka() -> Iterator[Kafka]:
    """Run a node until it is no longer needed."""
    with TemporaryDirectory(prefix="steelyard-kafka-") as folder:
        port, controller = _free_ports()
        settings = Path(folder) / "server.properties"
        settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
        java = [shutil.which("java") or "java", "-cp", str(_folder(_NODE, KAFKA_RELEASE) / "*")]
        made = ["kafka.tools.StorageTool", "format", "--cluster-id", _CLUSTER, "--config", str(settings)]
        run_tool(java[0], [*java[1:], *made], "Kafka cannot make its directory")
        with (output := Path(folder) / "said").open("wb") as out:
            process = subprocess.Popen(
                [*java, *_MEMORY, "kafka.Kafka", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=folder,
            )
        try:
            _wait_until_it_listens(process, port, output)
            yield Kafka(f"127.0.0.1:{port}", process.pid)
        finally:
            _end(process)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, output: Path) -> None:
    # The port was free a moment ago, and a node that cannot have it ends.
    end = monotonic() + _START_S
    while process.poll() is None and monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            sleep(0.1)
        else:
            return
    raise RuntimeError(f"Kafka does not start: {output.read_text(errors='replace')[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
