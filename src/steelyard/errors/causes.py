"""Errors that have their cause here, on the line, or in bytes and files; every other error has its root in this one.

Left out: what servers answer (answers.py).
"""

from enum import Enum

from steelyard.errors.extras import how_to_install

__all__ = [
    "AllocationError",
    "BrokerNotInRoute",
    "CannotConnect",
    "CannotListen",
    "ConfigurationError",
    "DiskFailed",
    "DiskFull",
    "Fault",
    "ImpossibleEvent",
    "JobFailed",
    "LimitExceeded",
    "LineClosed",
    "MalformedBody",
    "MalformedFrame",
    "MalformedHeader",
    "MalformedRecord",
    "MessagesLost",
    "MissingExtra",
    "NoNameServer",
    "NoRoute",
    "NotAStore",
    "NotAsExpected",
    "PartlySent",
    "ProtocolError",
    "QueuesLost",
    "ReplyFailed",
    "ReplyTimedOut",
    "Retry",
    "RowRefused",
    "SelectorFailed",
    "SendFailed",
    "SteelyardError",
    "StoreError",
    "StoreLocked",
    "StoreReadOnly",
    "TimedOut",
    "TransportError",
    "UnknownStrategy",
]


class Fault(Enum):
    """Whose fault an error is; only a server's fault may count against the server."""

    CALLER = "the caller's"
    SERVER = "the server's"
    LINE = "the line's"
    PEER = "the peer's"


class Retry(Enum):
    """Whether trying again can help, and where."""

    NEVER = "the same request fails again"
    LATER = "the same server, after a pause"
    ELSEWHERE = "another broker may take it"


def _rebuild(kind: "type[SteelyardError]", args: tuple[object, ...], facts: dict[str, object]) -> "SteelyardError":
    """Make an error again from its parts, without the arguments of its constructor."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class SteelyardError(Exception):
    """Anything that Steelyard raises on purpose.

    >>> str(SteelyardError("the pot is empty", next_step="fill it"))
    'the pot is empty; fill it'
    """

    fault: Fault = Fault.CALLER
    retry: Retry = Retry.NEVER
    next_step: str = ""

    def __init__(self, what: str, *, next_step: str | None = None) -> None:
        self.what = what
        if next_step is not None:
            self.next_step = next_step
        joint = " " if what.endswith(".") else "; "
        super().__init__(f"{what}{joint}{self.next_step}" if self.next_step else what)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class ConfigurationError(SteelyardError):
    """What was asked for cannot be done as asked: a bad option, a bad name, two wishes that exclude each other."""


class MissingExtra(ConfigurationError):
    """An optional package is needed and not installed.

    >>> MissingExtra("LZ4 bodies", extra="lz4").what
    'LZ4 bodies need a package that is not installed'
    """

    def __init__(self, what: str, *, extra: str) -> None:
        self.extra = extra
        super().__init__(f"{what} need a package that is not installed", next_step=how_to_install(extra))


class UnknownStrategy(ConfigurationError):
    """No allocation strategy has that name."""

    def __init__(self, name: str, *, known: tuple[str, ...], nearest: str | None = None) -> None:
        self.name, self.known, self.nearest = name, known, nearest
        hint = f"did you mean {nearest}? " if nearest else ""
        super().__init__(f"no allocation strategy is called {name!r}", next_step=f"{hint}known: {', '.join(known)}")


class SelectorFailed(ConfigurationError):
    """A selector raised, or named no queue of the list it was given: the message was not sent anywhere."""


class RowRefused(ConfigurationError):
    """A row of a frame cannot be sent as a message; rows count from 0 within their partition.

    >>> print(RowRefused("its text is empty", row=17, column="tags", partition=3, next_step="give null for none"))
    row 17 of partition 3 cannot be sent: in the column 'tags' its text is empty; give null for none
    """

    def __init__(
        self, why: str, *, row: int, column: str, partition: int | None = None, next_step: str | None = None
    ) -> None:
        self.why, self.row, self.column, self.partition = why, row, column, partition
        where = f"row {row}" if partition is None else f"row {row} of partition {partition}"
        super().__init__(f"{where} cannot be sent: in the column {column!r} {why}", next_step=next_step)

    def behind(self, rows: int, partition: int | None) -> "RowRefused":
        """Return the same for a row that so many rows of its partition come before."""
        return RowRefused(
            self.why, row=self.row + rows, column=self.column, partition=partition, next_step=self.next_step
        )


class SendFailed(SteelyardError):
    """No broker is known to have stored a message: one may have, where an answer did not come.

    ``attempts`` has the broker, the milliseconds and the reason of each, and ``limit`` is what ended them. Whose fault
    it is, and whether to try again, is that of the last attempt.

    >>> print(SendFailed("the message to 'orders' was not stored", attempts=(("broker-a", 12, "it is too busy"),)))
    the message to 'orders' was not stored: broker-a after 12 ms (it is too busy)
    """

    fault = Fault.SERVER

    def __init__(
        self,
        what: str,
        *,
        attempts: tuple[tuple[str, int, str], ...] = (),
        limit: str = "",
        last: SteelyardError | None = None,
        next_step: str | None = None,
    ) -> None:
        self.attempts, self.limit = attempts, limit
        if last is not None:
            self.fault, self.retry = last.fault, last.retry
            next_step = last.next_step if next_step is None else next_step
        tried = ", ".join(f"{broker} after {took_ms} ms ({why})" for broker, took_ms, why in attempts)
        super().__init__(f"{what}: {tried}" if tried else what, next_step=next_step)


class NotAsExpected(SteelyardError, AssertionError):
    """A test expected something else of a cluster, or left something behind; says what was there instead."""


class JobFailed(SteelyardError):
    """A job on Spark began and could not go on; what it had done counts, and it may be run again."""

    fault = Fault.SERVER
    retry = Retry.LATER


class QueuesLost(SteelyardError):
    """What was polled of some queues cannot be committed: others have them by now, and the messages come again there.

    ``queues`` are the names of those, such as ``orders@broker-a:3``. What was polled of other queues is stored.

    >>> print(QueuesLost("queues went elsewhere before they were committed", queues=("orders@broker-a:3",)))
    queues went elsewhere before they were committed: orders@broker-a:3; \
commit sooner after a poll, or give more drain_s
    """

    fault = Fault.PEER
    next_step = "commit sooner after a poll, or give more drain_s"

    def __init__(self, what: str, *, queues: tuple[str, ...] = (), next_step: str | None = None) -> None:
        self.queues = queues
        super().__init__(f"{what}: {', '.join(queues)}" if queues else what, next_step=next_step)


class MessagesLost(SteelyardError):
    """Messages that were to be read are not there any more: of ``queue``, from offset ``start`` to before ``end``.

    >>> print(MessagesLost("orders@broker-a:3", 10, 25, why="the broker keeps messages from offset 25 on"))
    offsets [10, 25) of orders@broker-a:3 are lost: the broker keeps messages from offset 25 on; \
read from offsets that are there, or go on without these: failOnDataLoss=false
    """

    fault = Fault.SERVER
    next_step = "read from offsets that are there, or go on without these: failOnDataLoss=false"

    def __init__(self, queue: str, start: int, end: int, *, why: str, next_step: str | None = None) -> None:
        self.queue, self.start, self.end, self.why = queue, start, end, why
        super().__init__(f"offsets [{start}, {end}) of {queue} are lost: {why}", next_step=next_step)


class PartlySent(SendFailed):
    """Of many messages that were sent together, some are not known to be stored.

    ``results`` has one entry a message, in the order given: what a send returns where it is stored, and its error where
    it is not. ``stored`` are the former alone.
    """

    def __init__(
        self,
        what: str,
        *,
        results: tuple[object, ...] = (),
        last: SteelyardError | None = None,
        next_step: str | None = None,
    ) -> None:
        self.results = results
        super().__init__(what, last=last, next_step=next_step)

    @property
    def stored(self) -> tuple[object, ...]:
        """What was returned for the messages that are stored."""
        return tuple(result for result in self.results if not isinstance(result, SteelyardError))


class AllocationError(SteelyardError):
    """A plan cannot be made from these queues and members; nothing changes hands because of it."""


class ImpossibleEvent(SteelyardError):
    """A queue met an event that its life has no row for, or went where its row does not lead: a bug of Steelyard.

    >>> print(ImpossibleEvent("orders@broker-a:3", state="DRAINING", event="NOBODY_HOLDS"))
    orders@broker-a:3 is DRAINING and met NOBODY_HOLDS, which cannot be; this is a bug of Steelyard, please report it
    """

    next_step = "this is a bug of Steelyard, please report it"

    def __init__(self, queue: str, *, state: str, event: str, after: str | None = None) -> None:
        self.queue, self.state, self.event, self.after = queue, state, event, after
        led = "" if after is None else f" and became {after}"
        super().__init__(f"{queue} is {state} and met {event}{led}, which cannot be")


_LONGEST_WHAT = 400


class ProtocolError(SteelyardError):
    """Bytes that are not the protocol. Says what is wrong, in which part, and at which byte of that part.

    >>> str(ProtocolError("the length is negative", where="frame", at=0))
    'frame, byte 0: the length is negative'
    """

    fault = Fault.PEER

    def __init__(self, what: str, *, where: str, at: int | None = None, next_step: str | None = None) -> None:
        self.where, self.at = where, at
        # It may quote the peer, who may have sent megabytes.
        what = what if len(what) <= _LONGEST_WHAT else f"{what[:_LONGEST_WHAT]}…"
        super().__init__(f"{where}: {what}" if at is None else f"{where}, byte {at}: {what}", next_step=next_step)


class MalformedFrame(ProtocolError):
    """The frame is broken, so nobody knows where the next one starts: the line has to be closed."""


class MalformedHeader(ProtocolError):
    """The frame is whole and its header cannot be read; where only a field of it cannot, the line may go on."""


class MalformedBody(ProtocolError):
    """The header is fine and the body cannot be read; the line may go on."""


class MalformedRecord(ProtocolError):
    """A stored message, a batch item or a properties text is damaged."""


class LimitExceeded(ProtocolError):
    """Larger than a named limit allows; what was read so far is let go.

    >>> str(LimitExceeded("header", where="frame", limit=65_536, found=70_000))
    'frame: header is 70000, the limit is 65536'
    """

    def __init__(self, what: str, *, where: str, limit: int, found: int | None = None, at: int | None = None) -> None:
        self.limit, self.found = limit, found
        size = f"{what} is {found}, the limit is {limit}" if found is not None else f"{what} exceeds {limit}"
        super().__init__(size, where=where, at=at)


class StoreError(SteelyardError):
    """The broker's memory cannot do what was asked."""

    fault = Fault.SERVER


class DiskFailed(StoreError):
    """The disk said no. ``path`` is the file, ``operation`` what was tried.

    >>> str(DiskFailed("fdatasync", path="commitlog/00000000000000000000", why="input/output error"))
    'fdatasync of commitlog/00000000000000000000 failed (input/output error); look at the disk and its cables'
    """

    next_step = "look at the disk and its cables"

    def __init__(self, operation: str, *, path: str, why: str) -> None:
        self.operation, self.path, self.why = operation, path, why
        super().__init__(f"{operation} of {path} failed ({why})")


class DiskFull(DiskFailed):
    """There is no room left on the disk; writing goes on by itself once there is."""

    retry = Retry.LATER
    next_step = "make room, or keep messages for less long"


class StoreLocked(StoreError):
    """Another process has the directory."""

    fault = Fault.CALLER
    next_step = "stop that process, or use another directory"


class NotAStore(StoreError):
    """The directory holds something else, or was written by a newer release."""

    fault = Fault.CALLER
    next_step = "give an empty directory, or one that a broker wrote"


class StoreReadOnly(StoreError):
    """The store serves reads and takes no writes; ``what`` says why."""

    retry = Retry.ELSEWHERE


class TransportError(SteelyardError):
    """No answer came: nothing is known about what the other side did."""

    code: int | None = None
    fault = Fault.LINE
    retry = Retry.ELSEWHERE


class CannotConnect(TransportError):
    """No connection could be made."""

    code = 10001
    next_step = "check the address, and that the server runs and listens there"


class CannotListen(TransportError):
    """A server cannot have the port it was told to listen at."""

    fault = Fault.CALLER
    retry = Retry.NEVER
    next_step = "check the address: it must be one of this machine"


class LineClosed(TransportError):
    """The connection went away while an answer was awaited."""


class TimedOut(TransportError):
    """No answer came in time."""

    code = 10002


class BrokerNotInRoute(TransportError):
    """The route of the topic does not list that broker."""

    code = 10003


class NoNameServer(TransportError):
    """No name server is known, or none answers."""

    code = 10004
    retry = Retry.LATER
    next_step = "give its address, or set NAMESRV_ADDR"


class NoRoute(TransportError):
    """No name server knows a route for the topic."""

    code = 10005
    fault = Fault.CALLER
    retry = Retry.LATER
    next_step = "create the topic first, or allow brokers to create topics"


class ReplyTimedOut(TransportError):
    """The request arrived, but nobody replied in time."""

    code = 10006
    retry = Retry.NEVER
    next_step = "the other side may still have handled it: make the request safe to repeat, or give more time"


class ReplyFailed(TransportError):
    """A reply could not be made: the message is not a request."""

    code = 10007
    fault = Fault.CALLER
    retry = Retry.NEVER
    next_step = "reply only to a message that was sent as a request"
