"""A controller of Apache's 5.5.0, and a broker of two processes that it watches."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.servers import ApacheBroker, free_port

from steelyard import Admin
from steelyard.errors import SteelyardError

__all__ = ["controlled"]

_RELEASE = "5.5.0"
_MEMORY = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m")
_START_SECONDS = 150


class _Watched(ApacheBroker):
    """A process of the broker. It answers only when the controller has told it what it is."""

    def start_controller(self, port: int) -> None:
        """Start the controller, and wait until it listens."""
        settings = self.home / "controller.conf"
        settings.write_text(
            f"controllerDLegerGroup=group1\ncontrollerDLegerPeers=n0-127.0.0.1:{port}\ncontrollerDLegerSelfId=n0\n"
            f"controllerStorePath={self.root.parent / 'controller'}\n"
        )
        self._start("controller.ControllerStartup", settings)
        self.until(lambda: _listens(port))

    def wait_until_it_answers(self) -> None:
        """Ask until the controller and the name server know it, and it has all that the others have."""
        self.until(self._is_in_sync)

    def _is_in_sync(self) -> bool:
        with Admin(f"127.0.0.1:{self.name_port}") as admin:
            mine = [each for each in admin.known_replicas() if each.address.endswith(f":{self.port}")]
            listed = [server.address for server in admin.servers("broker-a")]
        return bool(mine) and mine[0].in_sync and mine[0].address in listed

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                if is_so():
                    return
                why = "not yet"
            except SteelyardError as error:
                why = str(error)
            assert time.monotonic() < end, f"{why}: {self.said()}"
            time.sleep(0.2)


@contextmanager
def controlled(root: Path) -> Iterator[str]:
    """Run them, and give the address of the name server once both processes are in sync."""
    port = free_port()
    settings: dict[str, object] = {
        "enableControllerMode": "true",
        "controllerAddr": f"127.0.0.1:{port}",
        "brokerIP2": "127.0.0.1",
        "mappedFileSizeCommitLog": 64 << 20,
    }
    first = _Watched(_RELEASE, root / "a", settings, _MEMORY)
    second = _Watched(_RELEASE, root / "b", settings, _MEMORY, first)
    try:
        first.start_controller(port)
        first.start()
        second.start()
        yield f"127.0.0.1:{first.name_port}"
    finally:
        second.close()
        first.close()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
