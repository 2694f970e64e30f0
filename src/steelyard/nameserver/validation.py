"""Validation: names that a name server accepts, its limits with their reasons, and its error responses.

A name is stored, sent to every client and printed by tools, so its length is limited and it has no control characters.
Any client that reaches the port can register anything, so every table is limited. The limits are chosen so that the
largest response, with every string escaped, still fits into one frame of 16 MiB.
"""

import re

from steelyard.errors import ServerError, SteelyardError, error_for
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, response_to

MAX_NAME_BYTES = 512
"""The name of a topic, broker, cluster, namespace or key. The longest in use has 255 bytes: a retry topic, made of the
names of a group and a topic."""

_MAX_ADDRESS_BYTES = 300
"""A host and a port. A host name has at most 253 bytes."""

MAX_BROKER_ADDRESSES = 2_048
"""Brokers and their replicas, all clusters together: large installations have some hundred. With full names the list of
them is a response of 10 MiB."""

MAX_QUEUE_ENTRIES = 524_288
"""Pairs of a topic and a broker that has it: 50,000 topics on ten brokers. About 150 MB of memory."""

MAX_TOPIC_NAME_BYTES = 6 * 1024 * 1024
"""The names of all topics together: one response lists them all."""

MAX_MAPPED_QUEUES = 262_144
"""Queues of static topics, all brokers together: a registration may list many thousand of them in a few bytes."""

MAX_FILTER_SERVERS = 16
"""Filter servers of one broker. 5.0 dropped them; installations had a few at most."""

MAX_KEY_VALUES = 10_000
"""Key-value settings, and namespaces, which count as one each. In use: one per strictly ordered topic."""

MAX_KEY_VALUE_BYTES = 2 * 1024 * 1024
"""All names, keys and values together: one response lists a namespace, and one file holds all of them."""


# Control characters, line and paragraph separators, and lone surrogates, which no frame can carry.
_FORBIDDEN_CHARACTERS = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_MAX_REMARK_LENGTH = 1_000


def find_name_problem(name: str, *, limit: int = MAX_NAME_BYTES) -> str | None:
    r"""Return what is wrong with a name, or None.

    >>> find_name_problem("orders"), find_name_problem(""), find_name_problem("a\nb")
    (None, 'is empty', 'has a control character at place 1')
    """
    if not name:
        return "is empty"
    if found := _FORBIDDEN_CHARACTERS.search(name):
        return f"has a control character at place {found.start()}"
    if len(name) > limit or len(name.encode()) > limit:
        return f"has more than {limit} bytes"
    return None


def check_address(what: str, address: str) -> str:
    """Return an address, or refuse it. Whether it can be reached is not checked."""
    return check_name(what, address, limit=_MAX_ADDRESS_BYTES)


def check_name(what: str, name: str, *, limit: int = MAX_NAME_BYTES) -> str:
    """Return a name, or refuse it."""
    if wrong := find_name_problem(name, limit=limit):
        raise request_error(ResponseCode.INVALID_PARAMETER, f"the {what} {name[:80]!r} {wrong}")
    return name


def request_error(code: int, remark: str) -> ServerError:
    """Make the error for a response with this code; raise it.

    >>> request_error(22, "No config item").code
    22
    """
    return error_for(int(code), remark, server="the name server")


def error_response(request: Command, error: SteelyardError) -> Command:
    """Make the response for an error that a handler raised: a malformed request is a 1, as in Java."""
    if isinstance(error, ServerError):
        return response_to(request, error.code, remark=error.remark[:_MAX_REMARK_LENGTH])
    remark = f"the request cannot be read: {error}"
    return response_to(request, ResponseCode.SYSTEM_ERROR, remark=remark[:_MAX_REMARK_LENGTH])
