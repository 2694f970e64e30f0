"""How a handler says no: it raises one of the errors of the tree, and the core makes an answer of it."""

from steelyard.errors import (
    LimitExceeded,
    MalformedBody,
    MalformedHeader,
    ProtocolError,
    ServerError,
    SteelyardError,
    StoreError,
    error_for,
)
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to

__all__ = ["refusal", "refused"]

_LONGEST_REMARK = 1_000


def refusal(code: int, remark: str) -> ServerError:
    """Make the error that answers a request with this code; raise it.

    >>> refusal(17, "topic[t] not exist").code
    17
    """
    return error_for(code, remark, server="the broker")


def refused(request: Command, error: SteelyardError) -> Command:
    """Make the answer of an error that a handler raised."""
    if isinstance(error, ServerError):
        return answer_to(request, error.code, remark=_short(error.remark))
    if isinstance(error, MalformedHeader | MalformedBody):
        return answer_to(request, ResponseCode.SYSTEM_ERROR, remark=_short(f"the request cannot be read: {error}"))
    if isinstance(error, LimitExceeded | ProtocolError):
        return answer_to(request, ResponseCode.MESSAGE_ILLEGAL, remark=_short(str(error)))
    if isinstance(error, StoreError):
        return answer_to(request, ResponseCode.SERVICE_NOT_AVAILABLE, remark=_short(str(error)))
    return answer_to(request, ResponseCode.SYSTEM_ERROR, remark=_short(str(error)))


def _short(remark: str) -> str:
    return remark if len(remark) <= _LONGEST_REMARK else f"{remark[:_LONGEST_REMARK]}…"
