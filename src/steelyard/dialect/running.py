"""The settings that a member tells of itself (307), under the names by which Java's tools print them."""

from steelyard.balance.member_options import MemberOptions, Mode

__all__ = ["running_properties"]

_UNLIMITED = -1


def running_properties(
    options: MemberOptions, *, name_servers: str, started_ms: int, release: str, strategy: str
) -> dict[str, str]:
    """Return the settings as texts.

    >>> from steelyard.model import Subscription
    >>> options = MemberOptions("billing", "c1@sy1", {"orders": Subscription("orders")})
    >>> told = running_properties(options, name_servers="mq:9876", started_ms=0, release="1", strategy="STICKY")
    >>> told["PROP_CONSUMEORDERLY"], told["PROP_THREADPOOL_CORE_SIZE"]
    ('false', '20')
    """
    return {
        "PROP_NAMESERVER_ADDR": name_servers,
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        "PROP_CONSUMEORDERLY": str(options.mode is Mode.ORDERLY).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(options.handlers),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CLIENT_VERSION": f"steelyard {release}",
        "allocateMessageQueueStrategy": strategy,
        "consumerGroup": options.group,
        "messageModel": "BROADCASTING" if options.mode is Mode.BROADCAST else "CLUSTERING",
        "pullBatchSize": str(options.pull_most),
        "pullThresholdForQueue": str(options.queue_messages),
        "pullThresholdForTopic": str(options.topic_messages or _UNLIMITED),
    }
