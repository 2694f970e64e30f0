"""Which names a name server takes, and how it says no.

A name is kept, told to every client and printed by tools. So it has an end, and no letters that a screen would obey.
"""

import re

from steelyard.errors import ServerError, SteelyardError, error_for
from steelyard.nameserver.limits import ADDRESS_BYTES, NAME_BYTES
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to

__all__ = ["check_address", "check_name", "refusal", "refused", "wrong_with"]

# Control characters, line and paragraph ends, and halves of surrogate pairs, which no frame can carry.
_NOT_IN_A_NAME = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONGEST_REMARK = 1_000


def wrong_with(name: str, *, limit: int = NAME_BYTES) -> str | None:
    r"""Say what is wrong with a name, or None.

    >>> wrong_with("orders"), wrong_with(""), wrong_with("a\nb")
    (None, 'is empty', 'has a control character at place 1')
    """
    if not name:
        return "is empty"
    if found := _NOT_IN_A_NAME.search(name):
        return f"has a control character at place {found.start()}"
    if len(name) > limit or len(name.encode()) > limit:
        return f"has more than {limit} bytes"
    return None


def check_name(what: str, name: str) -> str:
    """Return a name, or refuse it."""
    return _checked(what, name, NAME_BYTES)


def check_address(what: str, address: str) -> str:
    """Return an address, or refuse it. Whether anybody answers there is not looked at."""
    return _checked(what, address, ADDRESS_BYTES)


def _checked(what: str, name: str, limit: int) -> str:
    if wrong := wrong_with(name, limit=limit):
        raise refusal(ResponseCode.INVALID_PARAMETER, f"the {what} {name[:80]!r} {wrong}")
    return name


def refusal(code: int, remark: str) -> ServerError:
    """Make the error that answers a request with this code; raise it.

    >>> refusal(22, "No config item").code
    22
    """
    return error_for(int(code), remark, server="the name server")


def refused(request: Command, error: SteelyardError) -> Command:
    """Make the answer of an error that a handler raised: what cannot be read is a 1, as it is in Java."""
    if isinstance(error, ServerError):
        return answer_to(request, error.code, remark=error.remark[:_LONGEST_REMARK])
    remark = f"the request cannot be read: {error}"
    return answer_to(request, ResponseCode.SYSTEM_ERROR, remark=remark[:_LONGEST_REMARK])
