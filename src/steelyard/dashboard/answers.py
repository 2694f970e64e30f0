"""What a browser is answered: values as JSON, failures as sentences with a status that says whose fault it was."""

import msgspec
from msgspec import Struct
from starlette.responses import Response

from steelyard.errors import (
    BrokerNotFound,
    ConfigurationError,
    GroupNotFound,
    IllegalOperation,
    InvalidParameter,
    NoMessage,
    NoPermission,
    NoRoute,
    NotFound,
    RequestNotSupported,
    SteelyardError,
    TopicNotFound,
    TransportError,
)

__all__ = ["Acted", "Failure", "failure_of", "json_answer", "refusal"]

_MISSING = (BrokerNotFound, GroupNotFound, NoMessage, NoRoute, NotFound, TopicNotFound)
_WRONG = (ConfigurationError, InvalidParameter, IllegalOperation)


class Failure(Struct, frozen=True):
    """Why something could not be done."""

    error: str
    """What happened, and what to do next: one sentence."""
    kind: str
    """The class of the error."""
    what: str
    next: str | None = None


class Acted(Struct, frozen=True):
    """What was done, or would be, and the command line that does the same."""

    command: str
    value: object


def json_answer(value: object, status: int = 200) -> Response:
    """Return a value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def failure_of(error: SteelyardError) -> Failure:
    """Return an error as a browser is told of it."""
    return Failure(str(error), type(error).__name__, error.what, error.next_step)


def refusal(error: SteelyardError) -> Response:
    """Return an error with the status that says whose fault it was."""
    if isinstance(error, _MISSING):
        status = 404
    elif isinstance(error, NoPermission):
        status = 403
    elif isinstance(error, _WRONG):
        status = 400
    elif isinstance(error, RequestNotSupported):
        status = 501
    else:
        status = 503 if isinstance(error, TransportError) else 502
    return json_answer(failure_of(error), status)
