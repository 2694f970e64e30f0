"""How much a name server keeps, each with its reason.

Anybody who reaches the port can register anything, so every table has an end. The ends are chosen so that the largest
answer, whose texts may all need escapes, still fits into one frame of 16 MiB.
"""

__all__ = [
    "ADDRESS_BYTES",
    "BROKER_ADDRESSES",
    "FILTER_SERVERS",
    "KEY_VALUES",
    "KEY_VALUE_BYTES",
    "MAPPED_QUEUES",
    "NAME_BYTES",
    "QUEUE_ENTRIES",
    "TOPIC_NAME_BYTES",
]

NAME_BYTES = 512
"""A name: of a topic, broker, cluster, namespace or key. The longest in use has 255 bytes: a topic of retries, made of
a group's name and a topic's."""

ADDRESS_BYTES = 300
"""A host and a port. A host's name has at most 253 bytes."""

BROKER_ADDRESSES = 2_048
"""Brokers and their replicas, all clusters together: large installations have some hundred. With full names the list of
them makes an answer of 10 MiB."""

QUEUE_ENTRIES = 524_288
"""Pairs of a topic and a broker that has it: 50,000 topics on ten brokers. About 150 MB of memory."""

TOPIC_NAME_BYTES = 6 * 1024 * 1024
"""The names of all topics together: one answer lists them all."""

MAPPED_QUEUES = 262_144
"""Queues of static topics, all brokers together: a registration may list many thousand of them in a few bytes."""

FILTER_SERVERS = 16
"""Filter servers of one broker. They were given up by 5.0; nobody ran more than a few."""

KEY_VALUES = 10_000
"""Key-value settings, and namespaces, which count as one more each. In use: one for each topic in strict order."""

KEY_VALUE_BYTES = 2 * 1024 * 1024
"""All names, keys and values together: a namespace is listed in one answer, and all of them are saved in one file."""
