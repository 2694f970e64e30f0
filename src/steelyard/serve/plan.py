"""Which servers to run, and where: one frozen value, checked once."""

from dataclasses import dataclass
from pathlib import Path

from steelyard.broker.names import check_broker, check_cluster
from steelyard.errors import ConfigurationError
from steelyard.net.listener import is_loopback, is_wildcard

__all__ = ["NAME_SERVER_PORT", "ClusterPlan"]

NAME_SERVER_PORT = 9876
"""Where clients look for a name server if nobody tells them."""

_BROKER_PORT, _BROKER_STEP = 10_911, 10
_STEP = 4
"""Between ports that follow each other. Two below a broker's own Java's clients look for its VIP channel, one above for
its replicas' line, and one above the first server is the page if that is at its usual port."""
_LAST_PORT = 65_535
_MOST = 64


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Name servers and brokers on one machine.

    >>> plan = ClusterPlan(brokers=2)
    >>> plan.name_server_port(0), plan.broker_port(0), plan.broker_port(1), plan.broker_names
    (9876, 10911, 10921, ('broker-0', 'broker-1'))
    >>> plan = ClusterPlan(brokers=2, port=7000)
    >>> plan.name_server_port(0), plan.broker_port(0), plan.broker_port(1)
    (7000, 7004, 7008)
    """

    brokers: int = 1
    name_servers: int = 1
    join: tuple[str, ...] = ()
    """Name servers that run already, with which the brokers register besides."""
    host: str = "127.0.0.1"
    """Where to listen."""
    advertise: str | None = None
    """What clients are told to connect to, if it is not the host."""
    allow_remote: bool = False
    """Whether other machines may be let in: there is no password."""
    port: int | None = None
    """The port of the first server; the others follow, four apart. 0 takes any free ones. None takes those that
    Apache's have."""
    data: Path | None = None
    """The directory of all of them, a folder each; None keeps everything in memory."""
    flush: str = "async"
    cluster: str = "DefaultCluster"
    broker_name: str | None = None
    """The name of the only broker, or what the names of several begin with."""

    def __post_init__(self) -> None:
        for name, count in (("brokers", self.brokers), ("name servers", self.name_servers)):
            if not 0 <= count <= _MOST:
                raise ConfigurationError(f"{count} {name} cannot be", next_step=f"give 0 to {_MOST}")
        if not self.brokers + self.name_servers:
            raise ConfigurationError("there is nothing to run", next_step="ask for a broker or a name server")
        self._check_host()
        check_cluster(self.cluster)
        for name in self.broker_names:
            check_broker(name)
        if self.flush not in ("sync", "async"):
            raise ConfigurationError(f"flush is {self.flush!r}", next_step="give sync or async")
        last = _STEP * (self.name_servers + self.brokers - 1)
        if self.port is not None and not 0 <= self.port <= _LAST_PORT - last:
            raise ConfigurationError(
                f"port {self.port} cannot be", next_step=f"give 1 to {_LAST_PORT - last}, or 0 for any that are free"
            )

    def _check_host(self) -> None:
        if not self.allow_remote and not is_loopback(self.host):
            raise ConfigurationError(
                f"{self.host} can be reached by other machines, and there is no password",
                next_step="add --insecure-allow-remote if that is what you want",
            )
        if is_wildcard(self.host) and self.advertise is None:
            raise ConfigurationError(
                f"clients cannot connect to {self.host}", next_step="tell them where to: --advertise HOST"
            )

    @property
    def broker_names(self) -> tuple[str, ...]:
        """The names of the brokers."""
        if self.broker_name is not None and self.brokers == 1:
            return (self.broker_name,)
        return tuple(f"{self.broker_name or 'broker'}-{number}" for number in range(self.brokers))

    def name_server_port(self, number: int) -> int:
        """Return where a name server listens."""
        return self._port(number, NAME_SERVER_PORT + number)

    def broker_port(self, number: int) -> int:
        """Return where a broker listens."""
        return self._port(self.name_servers + number, _BROKER_PORT + _BROKER_STEP * number)

    def _port(self, number: int, usual: int) -> int:
        if self.port is None:
            return usual
        return self.port + _STEP * number if self.port else 0
