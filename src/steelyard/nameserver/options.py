"""How a name server is set up: one frozen value, checked once.

The switches are Apache's, under names that read as sentences; settings.py knows what Apache calls them. One default
differs: the order of a topic is told to clients once somebody has set it. Apache's name server takes the setting and,
unless it was started with ``orderMessageEnable``, never uses it.
"""

from dataclasses import dataclass

from steelyard.errors import ConfigurationError

__all__ = ["NameServerOptions"]


@dataclass(frozen=True, slots=True)
class NameServerOptions:
    """A name server's times and switches.

    >>> NameServerOptions(broker_silence_ms=0)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: broker_silence_ms is 0; give a positive number of milliseconds
    """

    port: int = 9876
    """The port that it says it listens at."""
    broker_silence_ms: int = 120_000
    """A broker that was not heard of for longer is taken out of all routes, unless it asked for another time."""
    tells_clients_order: bool = True
    """Whether a route carries the order that was set for its topic."""
    tells_brokers_order: bool = True
    """Whether the answer to a registration carries the order of every topic."""
    lists_all_topics: bool = True
    """Whether the names of all topics may be asked for."""
    lists_topics: bool = True
    """Whether the topics of a cluster, or of a kind, may be asked for."""
    presents_acting_masters: bool = False
    """Whether a replica stands in for a master that is gone, for brokers that said that they want this."""
    drops_missing_topics: bool = False
    """Whether a topic goes that a broker's registration does not list any more. A registration of one topic is an
    addition and never drops any."""

    def __post_init__(self) -> None:
        if self.broker_silence_ms <= 0:
            raise ConfigurationError(
                f"broker_silence_ms is {self.broker_silence_ms}", next_step="give a positive number of milliseconds"
            )
