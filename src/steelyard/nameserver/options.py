"""Name server options: one frozen value, checked once, and the same settings under Apache's names.

One default differs: the order that was set for a topic is sent to clients. Apache's name server stores it and, unless
it was started with ``orderMessageEnable``, never uses it. Apache's also accepts every change of a setting, and most
mean nothing until the next start. Here only what takes effect at once can be changed; the rest is refused by name,
unless it has that value already. Unknown settings are ignored, as with Apache, so that one tool can serve several
releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from steelyard.errors import ConfigurationError
from steelyard.nameserver.validation import request_error
from steelyard.wire.codes import ResponseCode


@dataclass(frozen=True, slots=True)
class NameServerOptions:
    """A name server's times and switches.

    >>> NameServerOptions(broker_silence_ms=0)
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: broker_silence_ms is 0; give a positive number of milliseconds
    """

    port: int = 9876
    """The port that it reports."""
    broker_silence_ms: int = 120_000
    """A broker that is silent for longer is removed from all routes, unless it requested another time."""
    tells_clients_order: bool = True
    """Whether a route contains the order that was set for its topic."""
    tells_brokers_order: bool = True
    """Whether the response to a registration contains the order of every topic."""
    lists_all_topics: bool = True
    """Whether clients may list all topics."""
    lists_topics: bool = True
    """Whether clients may list topics by cluster or by flags."""
    presents_acting_masters: bool = False
    """Whether a replica is presented in place of a lost master, for brokers that request this."""
    drops_missing_topics: bool = False
    """Whether a topic is removed that a broker's registration no longer lists. A registration of one topic is an
    addition and never removes any."""

    def __post_init__(self) -> None:
        if self.broker_silence_ms <= 0:
            raise ConfigurationError(
                f"broker_silence_ms is {self.broker_silence_ms}", next_step="give a positive number of milliseconds"
            )


_SWITCHES = {
    "deleteTopicWithBrokerRegistration": "drops_missing_topics",
    "enableAllTopicList": "lists_all_topics",
    "enableTopicList": "lists_topics",
    "orderMessageEnable": "tells_clients_order",
    "returnOrderTopicConfigToBroker": "tells_brokers_order",
    "supportActingMaster": "presents_acting_masters",
}
"""Changeable settings: Apache's name, and ours."""

_FIXED = {
    "clusterTest": "false",
    "configBlackList": "configBlackList;configStorePath;kvConfigPath",
    "enableControllerInNamesrv": "false",
    "needWaitForService": "false",
    "notifyMinBrokerIdChanged": "false",
    "productEnvName": "center",
    "scanNotActiveBrokerInterval": "5000",
}
"""Fixed settings: features of Apache's name server that are not here."""

_UNUSED_SETTINGS = frozenset(
    """
    bindAddress clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity configStorePath defaultThreadPoolNums
    defaultThreadPoolQueueCapacity enableShutdownGracefully kvConfigPath rocketmqHome
    serverAsyncSemaphoreValue serverCallbackExecutorThreads serverChannelMaxIdleTimeSeconds serverNettyWorkerGroupEnable
    serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog
    serverSocketRcvBufSize serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds
    unRegisterBrokerQueueCapacity useEpollNativeSelector waitSecondsForService writeBufferHighWaterMark
    writeBufferLowWaterMark
    """.split()
)
"""Other settings of Apache's: paths, ports, threads and buffers."""

_BOOLEANS = {"true": True, "false": False}


def apache_settings(options: NameServerOptions) -> dict[str, str]:
    """Return all settings under Apache's names, in order.

    >>> apache_settings(NameServerOptions())["orderMessageEnable"]
    'true'
    """
    switches = {name: str(getattr(options, ours)).lower() for name, ours in _SWITCHES.items()}
    return dict(sorted((switches | _FIXED | {"listenPort": str(options.port)}).items()))


def apply_apache_settings(options: NameServerOptions, settings: Mapping[str, str]) -> NameServerOptions:
    """Return the options with these settings; refuse all of them if one cannot be changed.

    >>> changes = {"orderMessageEnable": "false", "noSuchThing": "1"}
    >>> apply_apache_settings(NameServerOptions(), changes).tells_clients_order
    False
    """
    changes: dict[str, bool] = {}
    current = apache_settings(options)
    for name, value in settings.items():
        if current.get(name) == value.strip():
            continue
        if name in _UNUSED_SETTINGS or (name in current and name not in _SWITCHES):
            raise request_error(
                ResponseCode.NO_PERMISSION,
                f"Can not update config in black list: {name} cannot be changed while the name server runs; "
                f"these can: {', '.join(sorted(_SWITCHES))}",
            )
        if name in _SWITCHES:
            truth = _BOOLEANS.get(value.strip().lower())
            if truth is None:
                remark = f"{name} is true or false, and not {value[:80]!r}: nothing was changed"
                raise request_error(ResponseCode.INVALID_PARAMETER, remark)
            changes[_SWITCHES[name]] = truth
    return replace(options, **changes)
