"""Producers walk around trouble on Apache's brokers, at full length: eight seconds of silence, Java's latency table.

The stories are those of tests/client/broker_trouble.py. `STEELYARD_INTEROP` names the brokers, ours by default.
Figures are shown by `-rP`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.balance.producer.broker_latency import MODERN
from tests.client import broker_trouble
from tests.client.broker_trouble import TrialTimings
from tests.client.process_cluster import Ground, our_ground
from tests.client.proxy import Proxy
from tests.interop.backends import OURS, chosen
from tests.interop.jars import NotReady
from tests.interop.mixed.figures import show
from tests.interop.servers import apache

pytestmark = pytest.mark.timeout(300)

PACE = TrialTimings(timeout_s=3.0, table=MODERN, flow=20, halted_s=8.0)
EAST, WEST = "broker-east", "broker-west"
_SETTINGS: dict[str, object] = {"mappedFileSizeCommitLog": 64 << 20}
_SMALL = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m")


class _FrontDoor:
    """A second address of the one name server that Apache's brokers have here; it can be shut."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    @property
    def pid(self) -> int:
        """None of its own."""
        raise NotImplementedError

    def kill(self) -> None:
        """Accept no connections."""
        self._proxy.refuse()

    def start(self) -> None:
        """Accept connections again."""
        self._proxy.accept()


@contextmanager
def _apache_ground(release: str, root: Path) -> Iterator[Ground]:
    with (
        apache(release, root / "east", **_SETTINGS, brokerName=EAST) as east,
        apache(release, root / "west", _SMALL, east, **_SETTINGS, brokerName=WEST) as west,
    ):
        names = f"127.0.0.1:{east.name_port}"
        door = Proxy(names).start()
        try:
            yield Ground(
                (door.address, names),
                {EAST: f"127.0.0.1:{east.port}", WEST: f"127.0.0.1:{west.port}"},
                {EAST: east, WEST: west, door.address: _FrontDoor(door)},
            )
        finally:
            door.stop()


@pytest.fixture(scope="module", params=chosen())
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Run two brokers of one backend."""
    root = tmp_path_factory.mktemp("trouble")
    backend: str = request.param
    try:
        with (
            our_ground(root, (EAST, WEST))
            if backend == OURS
            else _apache_ground(backend.removeprefix("apache-"), root) as running
        ):
            yield running
    except NotReady as problem:
        pytest.skip(str(problem))


def test_a_broker_that_is_killed_is_avoided_and_used_again(ground: Ground, tmp_path: Path) -> None:
    # The other one is as good, but Apache's name server would go with it.
    show("a broker is killed", broker_trouble.a_broker_is_killed(ground, PACE, WEST), tmp_path)


@pytest.mark.parametrize("broker", [EAST, WEST])
def test_a_broker_that_is_halted_is_avoided_and_used_again(ground: Ground, tmp_path: Path, broker: str) -> None:
    show(f"{broker} is halted", broker_trouble.a_broker_is_halted(ground, PACE, broker), tmp_path)


@pytest.mark.parametrize("broker", [EAST, WEST])
def test_a_slow_broker_is_avoided_and_where_all_are_slow_sends_go_on(
    ground: Ground, tmp_path: Path, broker: str
) -> None:
    show(f"{broker} is slow", broker_trouble.brokers_are_slow(ground, PACE, broker), tmp_path)


def test_a_lost_name_server_is_not_noticed(ground: Ground, tmp_path: Path) -> None:
    show("a name server is lost", broker_trouble.a_name_server_is_lost(ground, PACE), tmp_path)
