"""How a command ends: one table from what went wrong to the code that a script sees.

| code | what it says |
|---|---|
| 0 | it is done |
| 1 | it was tried and failed |
| 2 | it cannot be done as asked; nothing has been changed |
| 3 | the topic, group, broker or message is not there |
| 4 | the server understood, and refuses |
| 5 | nobody can be reached |
| 124 | it took too long |
| 130 | it was interrupted |
"""

from enum import IntEnum

from steelyard import errors

__all__ = ["Exit", "exit_for"]


class Exit(IntEnum):
    """The code that a command ends with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNREACHABLE = 5
    TIMED_OUT = 124
    INTERRUPTED = 130


# The first row that fits counts, so what is special comes before what is general.
_TABLE: tuple[tuple[Exit, tuple[type[errors.SteelyardError], ...]], ...] = (
    (
        Exit.NOT_FOUND,
        (
            errors.TopicNotFound,
            errors.GroupNotFound,
            errors.BrokerNotFound,
            errors.UserNotFound,
            errors.PolicyNotFound,
            errors.NotFound,
            errors.NoMessage,
            errors.NoRoute,
            errors.BrokerNotInRoute,
            errors.ConsumerOffline,
        ),
    ),
    (Exit.TIMED_OUT, (errors.TimedOut, errors.ReplyTimedOut, errors.ConsumerTimedOut, errors.PollingTimedOut)),
    (Exit.UNREACHABLE, (errors.NoNameServer, errors.CannotConnect, errors.LineClosed)),
    # What a directory holds is a part of the question: 1 says of `steelyard store` that it is damaged.
    (Exit.USAGE, (errors.ConfigurationError, errors.AllocationError, errors.StoreError)),
)


def exit_for(error: errors.SteelyardError) -> Exit:
    """Return the code that says what kind of failure it was.

    >>> exit_for(errors.NoNameServer("nobody is at localhost:9876")).name
    'UNREACHABLE'
    """
    for code, kinds in _TABLE:
        if isinstance(error, kinds):
            return code
    if isinstance(error, errors.ServerError) and error.fault is errors.Fault.CALLER:
        return Exit.REFUSED
    return Exit.FAILED
