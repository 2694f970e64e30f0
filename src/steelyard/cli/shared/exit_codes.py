"""Exit codes: one table from errors to the code that a script sees.

| code | meaning |
|---|---|
| 0 | success |
| 1 | it failed |
| 2 | wrong usage; nothing was changed |
| 3 | the topic, group, broker or message does not exist |
| 4 | the server rejected the request |
| 5 | no server can be reached |
| 70 | a bug of Steelyard; please report it |
| 124 | it timed out |
| 130 | it was interrupted |
"""

from enum import IntEnum

from steelyard import errors


class ExitCode(IntEnum):
    """The code that a command ends with."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNREACHABLE = 5
    BUG = 70
    TIMED_OUT = 124
    INTERRUPTED = 130


# The first row that matches counts, so special errors come before general ones.
_CODES_BY_ERROR: tuple[tuple[ExitCode, tuple[type[errors.SteelyardError], ...]], ...] = (
    (
        ExitCode.NOT_FOUND,
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
    (ExitCode.TIMED_OUT, (errors.TimedOut, errors.ReplyTimedOut, errors.ConsumerTimedOut, errors.PollingTimedOut)),
    (ExitCode.UNREACHABLE, (errors.NoNameServer, errors.CannotConnect, errors.ConnectionClosed)),
    # A directory that is no store is wrong usage: 1 means a damaged one in `steelyard store`.
    (ExitCode.USAGE, (errors.ConfigurationError, errors.AllocationError, errors.StoreError)),
)


def exit_code_for(error: errors.SteelyardError) -> ExitCode:
    """Return the exit code of an error.

    >>> exit_code_for(errors.NoNameServer("no name server at localhost:9876")).name
    'UNREACHABLE'
    """
    for code, kinds in _CODES_BY_ERROR:
        if isinstance(error, kinds):
            return code
    if error.fault is errors.Fault.STEELYARD:
        return ExitCode.BUG
    if isinstance(error, errors.ServerError) and error.fault is errors.Fault.CALLER:
        return ExitCode.REFUSED
    return ExitCode.FAILED
