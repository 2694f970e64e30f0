"""How a handler refuses a request: it raises one of the errors of the tree, and the core turns it into a response."""

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
from steelyard.wire.command import Command, response_to

_MAX_REMARK_LENGTH = 1_000


def request_error(code: int, remark: str) -> ServerError:
    """Make the error for a response with this code; raise it.

    >>> request_error(17, "topic[t] not exist").code
    17
    """
    return error_for(code, remark, server="the broker")


def system_error(remark: str) -> ServerError:
    """Make the error for a request that fails for a reason without a code of its own (1); raise it."""
    return request_error(ResponseCode.SYSTEM_ERROR, remark)


def invalid_parameter(remark: str) -> ServerError:
    """Make the error for a request with an impossible value (29); raise it."""
    return request_error(ResponseCode.INVALID_PARAMETER, remark)


def error_response(request: Command, error: SteelyardError) -> Command:
    """Make the response for an error that a handler raised."""
    code, remark = int(ResponseCode.SYSTEM_ERROR), str(error)
    if isinstance(error, ServerError):
        code, remark = error.code, error.remark
    elif isinstance(error, MalformedHeader | MalformedBody):
        remark = f"the request cannot be read: {error}"
    elif isinstance(error, LimitExceeded | ProtocolError):
        code = ResponseCode.MESSAGE_ILLEGAL
    elif isinstance(error, StoreError):
        code = ResponseCode.SERVICE_NOT_AVAILABLE
    remark = remark if len(remark) <= _MAX_REMARK_LENGTH else f"{remark[:_MAX_REMARK_LENGTH]}…"
    return response_to(request, code, remark=remark)
