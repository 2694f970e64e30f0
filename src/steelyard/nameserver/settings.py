"""The name server's own settings under Apache's names: what can be read, and what can be changed while it runs.

Apache's answers yes to whatever it is told: a path or a port is noted, and means nothing until the next start. Here
only what takes effect at once can be changed. The rest is refused by name, unless it is what it is already. What nobody
knows is passed over in silence, as Apache does, so that one tool can serve servers of several releases.
"""

from collections.abc import Mapping
from dataclasses import replace

from steelyard.nameserver.names import refusal
from steelyard.nameserver.options import NameServerOptions
from steelyard.wire.codes import ResponseCode

__all__ = ["change_settings", "shown_settings"]

_SWITCHES = {
    "deleteTopicWithBrokerRegistration": "drops_missing_topics",
    "enableAllTopicList": "lists_all_topics",
    "enableTopicList": "lists_topics",
    "orderMessageEnable": "tells_clients_order",
    "returnOrderTopicConfigToBroker": "tells_brokers_order",
    "supportActingMaster": "presents_acting_masters",
}
"""What can be changed: Apache's name, and ours."""

_FIXED = {
    "clusterTest": "false",
    "configBlackList": "configBlackList;configStorePath;kvConfigPath",
    "enableControllerInNamesrv": "false",
    "needWaitForService": "false",
    "notifyMinBrokerIdChanged": "false",
    "productEnvName": "center",
    "scanNotActiveBrokerInterval": "5000",
}
"""What is as it is: parts of Apache's name server that are not here."""

_MEANINGLESS = frozenset(
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
"""What Apache's has besides: its paths, ports, threads and buffers."""

_TRUTHS = {"true": True, "false": False}


def shown_settings(options: NameServerOptions) -> dict[str, str]:
    """Return all settings under Apache's names, in order.

    >>> shown_settings(NameServerOptions())["orderMessageEnable"]
    'true'
    """
    switches = {name: str(getattr(options, ours)).lower() for name, ours in _SWITCHES.items()}
    return dict(sorted((switches | _FIXED | {"listenPort": str(options.port)}).items()))


def change_settings(options: NameServerOptions, wanted: Mapping[str, str]) -> NameServerOptions:
    """Return the options with these settings; refuse all of them if one cannot be changed.

    >>> change_settings(NameServerOptions(), {"orderMessageEnable": "false", "noSuchThing": "1"}).tells_clients_order
    False
    """
    changes: dict[str, bool] = {}
    shown = shown_settings(options)
    for name, value in wanted.items():
        if shown.get(name) == value.strip():
            continue
        if name in _MEANINGLESS or (name in shown and name not in _SWITCHES):
            raise refusal(
                ResponseCode.NO_PERMISSION,
                f"Can not update config in black list: {name} cannot be changed while the name server runs; "
                f"what can be: {', '.join(sorted(_SWITCHES))}",
            )
        if name in _SWITCHES:
            truth = _TRUTHS.get(value.strip().lower())
            if truth is None:
                remark = f"{name} is true or false, and not {value[:80]!r}: nothing was changed"
                raise refusal(ResponseCode.INVALID_PARAMETER, remark)
            changes[_SWITCHES[name]] = truth
    return replace(options, **changes)
