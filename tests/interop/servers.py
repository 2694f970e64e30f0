"""Apache's name server and broker as processes of ours: started on free ports, asked by our own wire code, ended.

A broker is ours only if it says so: it is asked for its settings, and must name the directory it was given. It is ended
by its own handle, and with it everything it wrote outside that directory: its logs lie in a home that goes away.
"""

import itertools
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from steelyard.wire.bodies.common import decode_settings
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, CommandFields
from steelyard.wire.frames import FrameDecoder, encode_frame
from tests.interop.jars import server_class_path

_SMALL = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m")
_OPENED = (
    # What Apache's own scripts give a modern Java.
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED", "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens", "java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens", "java.base/java.lang=ALL-UNNAMED"),
    *("--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"),
)
_START_SECONDS = 120
_STOP_SECONDS = 60

_given_ports: set[int] = set()

# The older release reads its logger's settings from here and does not start without them.
_LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file><encoder><pattern>%d %p %logger - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


class WireConnection:
    """A plain blocking connection: a command out, its answer back."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._splitter = FrameDecoder()
        self._opaques = itertools.count(1)

    def ask(self, code: int, fields: CommandFields, body: bytes = b"") -> Command:
        """Ask, and return the answer whatever it says; what the broker asks of its own accord is passed over."""
        opaque = next(self._opaques)
        self._socket.sendall(encode_frame(Command(code, fields, body, opaque=opaque)))
        while True:
            received = self._socket.recv(1 << 16)
            if not received:
                raise RuntimeError(f"the broker closed the connection instead of answering {code}")
            for command in self._splitter.feed(received):
                if command.is_response and command.opaque == opaque:
                    return command

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class ApacheBroker:
    """A broker on a directory, and the name server it is registered with: one of its own, or that of another broker."""

    def __init__(
        self,
        release: str,
        root: Path,
        settings: dict[str, object],
        memory: Sequence[str] = _SMALL,
        beside: "ApacheBroker | None" = None,
    ) -> None:
        self.release, self.root = release, root
        self._is_alone = beside is None
        self._memory = memory
        self._home = tempfile.TemporaryDirectory(prefix="steelyard-apache-")
        self.home = home = Path(self._home.name)
        (home / "conf").mkdir()
        for name in ("logback_namesrv.xml", "logback_broker.xml"):
            (home / "conf" / name).write_text(_LOGBACK.format(file=home / f"{name}.log"))
        self.name_port: int = free_port() if beside is None else beside.name_port
        self.port = free_port()
        (home / "namesrv.conf").write_text(f"listenPort={self.name_port}\n")
        self._processes: list[subprocess.Popen[bytes]] = []
        given: dict[str, object] = {
            "brokerClusterName": "steelyard",
            "brokerName": "broker-a",
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": f"127.0.0.1:{self.name_port}",
            "listenPort": self.port,
            "storePathRootDir": root,
            "storePathCommitLog": root / "commitlog",
            "autoCreateTopicEnable": "true",
            "diskMaxUsedSpaceRatio": 95,
            # On a busy machine a send may wait longer than Apache's 200 ms, and is then refused.
            "waitTimeMillsInSendQueue": 10_000,
        }
        (home / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in (given | settings).items()))

    def start(self) -> None:
        """Start both, and wait until the broker answers."""
        home = Path(self._home.name)
        if self._is_alone:
            self._start("namesrv.NamesrvStartup", home / "namesrv.conf")
        self._start("broker.BrokerStartup", home / "broker.conf")
        self.wait_until_it_answers()

    def _start(self, startup: str, settings: Path) -> None:
        home = settings.parent
        with (home / f"{settings.stem}.out").open("wb") as output:
            places = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "-cp", server_class_path(self.release)]
            command = ["java", *self._memory, *_OPENED, *places, f"org.apache.rocketmq.{startup}", "-c", str(settings)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=home)
        self._processes.append(process)

    def wait_until_it_answers(self) -> None:
        """Ask the broker until it says that it is the one that was started."""
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._processes[-1].poll() is None:
            try:
                with self.connection() as connection:
                    answer = connection.ask(RequestCode.GET_BROKER_CONFIG, {})
            except (OSError, RuntimeError):
                time.sleep(0.1)
                continue
            root = decode_settings(answer.body).get("storePathRootDir")
            if root != str(self.root):
                raise RuntimeError(f"port {self.port} is somebody else's: its broker stores in {root}")
            return
        raise RuntimeError(f"Apache's broker {self.release} does not start: {self.output()}")

    @property
    def pid(self) -> int:
        """The broker's own process, without the name server."""
        return self._processes[-1].pid

    def output(self) -> str:
        """Return the end of what the broker told its logs."""
        logs = [path for path in Path(self._home.name).rglob("*") if path.suffix in (".out", ".log") and path.is_file()]
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in sorted(logs))

    @contextmanager
    def connection(self) -> Iterator[WireConnection]:
        """Connect, and hang up afterwards."""
        connection = WireConnection(self.port)
        try:
            yield connection
        finally:
            connection.close()

    def stop(self) -> None:
        """Let the broker close its directory, and end both."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker as a crash does."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        while self._processes:
            process = self._processes.pop()
            if process.poll() is None:
                process.send_signal(how)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            how = signal.SIGKILL  # the name server has nothing to lose

    def close(self) -> None:
        """Kill what still runs, and remove its logs."""
        self.kill()
        self._home.cleanup()


@contextmanager
def apache(
    release: str,
    root: Path,
    memory: Sequence[str] = _SMALL,
    beside: ApacheBroker | None = None,
    /,
    **settings: object,
) -> Iterator[ApacheBroker]:
    """Run a broker on a directory, beside another if one is given; it is killed at the end unless it was stopped."""
    broker = ApacheBroker(release, root, settings, memory, beside)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


def free_port() -> int:
    """Return a port that is free, as are the one behind it and the two before it: a broker takes three of these.

    It is none that the system gives to whoever asks for any: one of those could be gone before a Java has started.
    """
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000, 4)
        if port not in _given_ports and all(_is_free(port + step) for step in (-2, -1, 0, 1)):
            _given_ports.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
