"""Every error Steelyard raises, in one tree.

::

    SteelyardError
    ├── ConfigurationError            the request cannot be carried out as given
    │   ├── MissingExtra              an optional package is not installed
    │   ├── RowRefused                a row of a frame cannot be sent; says which, and why
    │   ├── SelectorFailed            a selector named no queue for a message
    │   └── UnknownStrategy           no allocation strategy has that name
    ├── SendFailed                    a message was not stored; lists every attempt
    │   └── PartlySent                some of many messages were not stored; says which
    ├── MessagesLost                  messages to read no longer exist; says which
    ├── JobFailed                     a job on Spark began and could not go on
    ├── NotAsExpected                 a test expected another state of a cluster; says what it found
    ├── QueuesLost                    offsets of queues that moved to other members cannot be committed
    ├── AllocationError               a plan cannot be made from these queues and members
    ├── ImpossibleEvent               the transition table has no row for this event: a bug of ours
    ├── ProtocolError                 bytes that are not the protocol; says what and where
    │   ├── MalformedFrame            the start of the next frame is unknown, so the connection must close
    │   ├── MalformedHeader           the frame is whole, its header is not
    │   ├── MalformedBody             the header is fine, the body is not
    │   ├── MalformedRecord           a stored message is damaged
    │   └── LimitExceeded             larger than a named limit allows
    ├── StoreError                    the message store failed
    │   ├── DiskFailed                a file operation failed
    │   │   └── DiskFull              the disk is full
    │   ├── StoreLocked               another process uses the directory
    │   ├── NotAStore                 the directory holds other files, or is of a newer release
    │   └── StoreReadOnly             it serves reads and refuses writes: says why
    ├── TransportError                no response arrived
    │   ├── CannotConnect  CannotListen  ConnectionClosed  TimedOut
    │   └── NoNameServer  NoRoute  BrokerNotInRoute  ReplyTimedOut  ReplyFailed
    └── ServerError                   the server answered, and refused
        ├── ServerFailed  ServerBusy  FlowControlled  CannotStore  GoingAway  NotLeader
        ├── RequestNotSupported  VersionNotSupported  InvalidParameter  IllegalOperation  NoPermission
        ├── MessageRefused  NoBuyerId  NotInUnit  NoMessage  PollingFull  PollingTimedOut
        ├── TopicNotFound  TopicExists  GroupNotFound  BrokerNotFound  NotFound  UserNotFound  PolicyNotFound
        ├── SubscriptionUnreadable  SubscriptionMissing  SubscriptionStale  FilterMissing  FilterStale
        ├── ConsumerOffline  ConsumerTimedOut  DispatchBehind  BroadcastGroup
        └── TransactionFailed  TransactionState

Each class says whose fault it is (``fault``) and whether a retry can help (``retry``), so that a sender asks the error
instead of keeping a list of its own. A message is a sentence that says what happened and where, followed by
what to do next. Facts are attributes. Every error survives pickling, because Spark carries them between processes.
Where Python has a class of its own, an error is that, too: ``except TimeoutError`` and ``except ConnectionError`` do
what they say. Inside Steelyard, where a timer may raise the same, catch ours first.

Left out: response codes that are results and not errors (stored but flushed late, nothing to pull yet): wire/codes.py.
"""

from enum import Enum
from errno import EACCES, EDQUOT, EIO, ELOOP, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from typing import NamedTuple

__all__ = [
    "AllocationError",
    "BroadcastGroup",
    "BrokerNotFound",
    "BrokerNotInRoute",
    "CannotConnect",
    "CannotListen",
    "CannotStore",
    "ConfigurationError",
    "ConnectionClosed",
    "ConsumerOffline",
    "ConsumerTimedOut",
    "DiskFailed",
    "DiskFull",
    "DispatchBehind",
    "Fault",
    "FilterMissing",
    "FilterStale",
    "FlowControlled",
    "GoingAway",
    "GroupNotFound",
    "IllegalOperation",
    "ImpossibleEvent",
    "InvalidParameter",
    "JobFailed",
    "LimitExceeded",
    "MalformedBody",
    "MalformedFrame",
    "MalformedHeader",
    "MalformedRecord",
    "MessageRefused",
    "MessagesLost",
    "MissingExtra",
    "NoBuyerId",
    "NoMessage",
    "NoNameServer",
    "NoPermission",
    "NoRoute",
    "NotAStore",
    "NotAsExpected",
    "NotFound",
    "NotInUnit",
    "NotLeader",
    "PartlySent",
    "PolicyNotFound",
    "PollingFull",
    "PollingTimedOut",
    "ProtocolError",
    "QueuesLost",
    "ReplyFailed",
    "ReplyTimedOut",
    "RequestNotSupported",
    "Retry",
    "RowRefused",
    "SelectorFailed",
    "SendFailed",
    "ServerBusy",
    "ServerError",
    "ServerFailed",
    "SteelyardError",
    "StoreError",
    "StoreLocked",
    "StoreReadOnly",
    "SubscriptionMissing",
    "SubscriptionStale",
    "SubscriptionUnreadable",
    "TimedOut",
    "TopicExists",
    "TopicNotFound",
    "TransactionFailed",
    "TransactionState",
    "TransportError",
    "UnknownStrategy",
    "UserNotFound",
    "VersionNotSupported",
    "error_class",
    "error_for",
    "file_advice",
    "file_error",
    "how_to_install",
]


def how_to_install(extras: str) -> str:
    """Say how to install an extra, or several with commas between them.

    Every message asks here, so that one line changes once the package is published. For pages it is docs/install.md.

    >>> how_to_install("spark,local")
    "run in a clone of Steelyard: pip install -e '.[spark,local]'"
    """
    return f"run in a clone of Steelyard: pip install -e '.[{extras}]'"


_FILE_ADVICE = {
    **dict.fromkeys((EACCES, EPERM, EROFS), "check the permissions"),
    **dict.fromkeys((ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP), "check the path"),
    **dict.fromkeys((ENOSPC, EDQUOT), "free space there"),
    EIO: "check the disk's health",
}


def file_advice(error: OSError, otherwise: str) -> str:
    """Say what to do about a file operation that failed, by the system's reason.

    >>> file_advice(PermissionError(EACCES, "Permission denied"), "give another file")
    'check the permissions'
    >>> file_advice(IsADirectoryError(21, "Is a directory"), "give another file")
    'give another file'
    """
    return _FILE_ADVICE.get(error.errno or 0, otherwise)


def file_error(what: str, error: OSError, otherwise: str) -> "ConfigurationError":
    """Make the error of a file that was named and cannot be used.

    >>> print(file_error("shop.json cannot be read", FileNotFoundError(ENOENT, "No such file"), "give another"))
    shop.json cannot be read (no such file); check the path
    """
    why = (error.strerror or str(error)).lower()
    return ConfigurationError(f"{what} ({why})", next_step=file_advice(error, otherwise))


class Fault(Enum):
    """Whose fault an error is; only the server's own counts against it in broker latency."""

    CALLER = "the caller's"
    SERVER = "the server's"
    CONNECTION = "the connection's"
    PEER = "the peer's"
    STEELYARD = "Steelyard's: a bug"


class Retry(Enum):
    """Whether a retry can help, and where."""

    NEVER = "the same request fails again"
    LATER = "the same server, after a pause"
    ELSEWHERE = "another broker may take it"


def _rebuild(kind: "type[SteelyardError]", args: tuple[object, ...], facts: dict[str, object]) -> "SteelyardError":
    """Rebuild a pickled error from its parts: constructors differ, so none is called."""
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
    """The request cannot be carried out as given: a bad option, a bad name, options that exclude each other."""


class MissingExtra(ConfigurationError, ImportError):
    """An optional package is needed and not installed; also an `ImportError`.

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
    """A selector raised, or chose no queue of its list: the message was not sent."""


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
        """Return the same error for a row that ``rows`` rows of its partition precede."""
        return RowRefused(
            self.why, row=self.row + rows, column=self.column, partition=partition, next_step=self.next_step
        )


class SendFailed(SteelyardError):
    """No broker confirmed a message; one may have stored it if its response was lost.

    ``attempts`` has the broker, the milliseconds and the reason of each, and ``limit`` is what ended them. Fault and
    retry are those of the last attempt.

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
    """A test expected another state of a cluster, or leaked clients; says what it found instead."""


class JobFailed(SteelyardError):
    """A Spark job started and failed; its finished work counts, and it may be run again."""

    fault = Fault.SERVER
    retry = Retry.LATER


class QueuesLost(SteelyardError):
    """Offsets of some queues cannot be committed: they moved to other members, which receive the messages again.

    ``queues`` are their names, such as ``orders@broker-a:3``. The offsets of all other queues are stored.

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
    """Messages to read no longer exist: of ``queue``, from offset ``start`` to before ``end``.

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
    """Of several messages that were sent together, some were not confirmed.

    ``results`` has one entry per message, in the order given: its `SendResult` if it is stored, else its error.
    ``stored`` are the former alone.
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
        """The results of the messages that are stored."""
        return tuple(result for result in self.results if not isinstance(result, SteelyardError))


class AllocationError(SteelyardError):
    """No assignment can be computed from these queues and members; all queues stay where they are."""


class ImpossibleEvent(SteelyardError):
    """The transition table has no row for this event, or the queue left its row: a bug of Steelyard.

    >>> print(ImpossibleEvent("orders@broker-a:3", state="DRAINING", event="NO_PEER_HOLDS"))
    orders@broker-a:3 is DRAINING and met NO_PEER_HOLDS, which cannot be; this is a bug of Steelyard, please report it
    """

    fault = Fault.STEELYARD
    next_step = "this is a bug of Steelyard, please report it"

    def __init__(self, queue: str, *, state: str, event: str, after: str | None = None) -> None:
        self.queue, self.state, self.event, self.after = queue, state, event, after
        led = "" if after is None else f" and became {after}"
        super().__init__(f"{queue} is {state} and met {event}{led}, which cannot be")


_MAX_WHAT_LENGTH = 400


class ProtocolError(SteelyardError):
    """Bytes that are not the protocol. Says what is wrong, in which part, and at which byte of that part.

    >>> str(ProtocolError("the length is negative", where="frame", at=0))
    'frame, byte 0: the length is negative'
    """

    fault = Fault.PEER

    def __init__(self, what: str, *, where: str, at: int | None = None, next_step: str | None = None) -> None:
        self.where, self.at = where, at
        # It may quote the peer, which may have sent megabytes.
        what = what if len(what) <= _MAX_WHAT_LENGTH else f"{what[:_MAX_WHAT_LENGTH]}…"
        super().__init__(f"{where}: {what}" if at is None else f"{where}, byte {at}: {what}", next_step=next_step)


class MalformedFrame(ProtocolError):
    """The frame is broken, so the start of the next one is unknown: the connection must be closed."""


class MalformedHeader(ProtocolError):
    """The frame is whole and its header cannot be read; if only a field is bad, the connection may go on."""


class MalformedBody(ProtocolError):
    """The header is fine and the body cannot be read; the connection may go on."""


class MalformedRecord(ProtocolError):
    """A stored message, a batch item or a properties text is damaged."""


class LimitExceeded(ProtocolError):
    """Larger than a named limit allows; what was read so far is dropped.

    >>> str(LimitExceeded("header", where="frame", limit=65_536, found=70_000))
    'frame: header is 70000, the limit is 65536'
    """

    def __init__(self, what: str, *, where: str, limit: int, found: int | None = None, at: int | None = None) -> None:
        self.limit, self.found = limit, found
        size = f"{what} is {found}, the limit is {limit}" if found is not None else f"{what} exceeds {limit}"
        super().__init__(size, where=where, at=at)


class StoreError(SteelyardError):
    """The message store failed."""

    fault = Fault.SERVER


class DiskFailed(StoreError):
    """A file operation failed. ``path`` is the file, ``operation`` the system call.

    >>> str(DiskFailed("fdatasync", path="commitlog/00000000000000000000", why="input/output error"))
    "fdatasync of commitlog/00000000000000000000 failed (input/output error); check the disk's health"
    """

    next_step = "check the disk's health"

    def __init__(self, operation: str, *, path: str, why: str, next_step: str | None = None) -> None:
        self.operation, self.path, self.why = operation, path, why
        super().__init__(f"{operation} of {path} failed ({why})", next_step=next_step)


class DiskFull(DiskFailed):
    """The disk is full; writing resumes by itself once there is space."""

    retry = Retry.LATER
    next_step = "free space, or shorten the retention"


class StoreLocked(StoreError):
    """Another process uses the directory."""

    fault = Fault.CALLER
    next_step = "stop that process, or use another directory"


class NotAStore(StoreError):
    """The directory holds other files, or was written by a newer release."""

    fault = Fault.CALLER
    next_step = "give an empty directory, or one that a broker wrote"


class StoreReadOnly(StoreError):
    """The store serves reads and refuses writes; ``what`` says why."""

    retry = Retry.ELSEWHERE


class TransportError(SteelyardError):
    """No response arrived: what the other side did is unknown."""

    code: int | None = None
    fault = Fault.CONNECTION
    retry = Retry.ELSEWHERE


class CannotConnect(TransportError, ConnectionError):
    """No connection could be made; also a `ConnectionError`. ``errno`` is the system's reason, if it gave one."""

    code = 10001
    errno: int | None = None
    next_step = "check the address, and that the server runs and listens there"


class CannotListen(TransportError):
    """A server cannot listen on its port."""

    fault = Fault.CALLER
    retry = Retry.NEVER
    next_step = "check the address: it must be one of this machine"


class ConnectionClosed(TransportError, ConnectionError):
    """The connection was closed before the response arrived; also a `ConnectionError`."""


class TimedOut(TransportError, TimeoutError):
    """No response arrived in time; also a `TimeoutError`."""

    code = 10002


class BrokerNotInRoute(TransportError):
    """The route of the topic does not list that broker."""

    code = 10003


class NoNameServer(TransportError, ConnectionError):
    """No name server is known, or none answers; also a `ConnectionError`."""

    code = 10004
    retry = Retry.LATER
    next_step = "give its address, or set NAMESRV_ADDR"


class NoRoute(TransportError):
    """No name server knows a route for the topic."""

    code = 10005
    fault = Fault.CALLER
    retry = Retry.LATER
    next_step = "create the topic first, or allow brokers to create topics"


class ReplyTimedOut(TransportError, TimeoutError):
    """The request was delivered, but no reply came in time; also a `TimeoutError`."""

    code = 10006
    retry = Retry.NEVER
    next_step = "the other side may still have handled it: make the request safe to repeat, or give more time"


class ReplyFailed(TransportError):
    """A reply could not be sent: the message is not a request."""

    code = 10007
    fault = Fault.CALLER
    retry = Retry.NEVER
    next_step = "reply only to a message that was sent as a request"


# -- responses of servers: one class for each meaning, and a table of what belongs to it


class ServerError(SteelyardError):
    """The server answered, and refused. ``code`` and ``remark`` are its own; ``server`` is its name or address.

    ``what`` is the caller's sentence, which may know more than the response; without it, one is made of the response.
    Without a ``code`` it is that of the class.

    >>> error = error_for(17, "No topic route info", server="127.0.0.1:9876")
    >>> type(error).__name__, error.code, error.fault.value
    ('TopicNotFound', 17, "the caller's")
    """

    fault = Fault.SERVER
    retry = Retry.NEVER
    codes: tuple[int, ...] = ()
    says = "the request was refused"

    def __init__(
        self,
        remark: str = "",
        *,
        code: int | None = None,
        server: str = "the server",
        what: str | None = None,
        next_step: str | None = None,
    ) -> None:
        self.code, self.remark, self.server = self.codes[0] if code is None else code, remark, server
        detail = f" ({remark.strip()})" if remark.strip() else ""
        super().__init__(what or f"{server} answered {self.code}: {self.says}{detail}", next_step=next_step)


class ServerFailed(ServerError):
    """Something went wrong inside the server; its remark says what."""


class ServerBusy(ServerError):
    """The server is overloaded and did not handle the request."""


class RequestNotSupported(ServerError):
    """The server does not know this request."""


class TransactionFailed(ServerError):
    """The server could not run the transaction."""


class MessageRefused(ServerError):
    """The message is too large, has too many properties, or asks for an impossible delay."""


class CannotStore(ServerError):
    """The store is closed, the disk is full, or this is a replica."""


class VersionNotSupported(ServerError):
    """The server does not support this version."""


class NoPermission(ServerError):
    """The caller lacks the permission for this."""


class TopicNotFound(ServerError):
    """The topic does not exist there."""


class TopicExists(ServerError):
    """The topic exists already."""


class NotFound(ServerError):
    """There is no such offset, message or setting."""


class SubscriptionUnreadable(ServerError):
    """The subscription's expression cannot be parsed."""


class SubscriptionMissing(ServerError):
    """The broker knows no such subscription of the group."""


class SubscriptionStale(ServerError):
    """The broker knows an older version of the subscription; the next heartbeat corrects it."""


class GroupNotFound(ServerError):
    """The group does not exist there."""


class FilterMissing(ServerError):
    """The broker has no compiled filter for this group yet."""


class FilterStale(ServerError):
    """The broker's compiled filter is older than the subscription."""


class InvalidParameter(ServerError):
    """A field of the request has an impossible value."""


class TransactionState(ServerError):
    """The state of a transaction, as old servers report it."""


class NoBuyerId(ServerError):
    """The unit needs a buyer id on the message."""


class NotInUnit(ServerError):
    """The message belongs to another unit."""


class ConsumerOffline(ServerError):
    """No member of the group is online."""


class ConsumerTimedOut(ServerError):
    """The broker asked a member, and the member did not answer in time."""


class NoMessage(ServerError):
    """There is no such message."""


class PollingFull(ServerError):
    """Too many polls are held already."""


class PollingTimedOut(ServerError):
    """The poll ended without a message."""


class BrokerNotFound(ServerError):
    """No such broker."""


class DispatchBehind(ServerError):
    """The broker's index lags behind its log."""


class BroadcastGroup(ServerError):
    """The group is broadcasting, so it has no shared offsets."""


class FlowControlled(ServerError):
    """The server asks for a pause."""


class NotLeader(ServerError):
    """Another broker leads this queue."""


class IllegalOperation(ServerError):
    """A commit or rollback came too late."""


class GoingAway(ServerError):
    """The server is shutting down: connect again and resend once."""


class UserNotFound(ServerError):
    """No such user."""


class PolicyNotFound(ServerError):
    """No such access policy."""


class _Row(NamedTuple):
    kind: type[ServerError]
    codes: int | tuple[int, ...]
    says: str
    next_step: str = ""
    fault: Fault = Fault.SERVER
    retry: Retry = Retry.NEVER


_CALLER, _LATER, _ELSEWHERE = Fault.CALLER, Retry.LATER, Retry.ELSEWHERE

_TABLE = (
    _Row(ServerFailed, 1, "it failed", retry=_ELSEWHERE),
    _Row(ServerBusy, 2, "it is too busy", retry=_ELSEWHERE),
    _Row(
        RequestNotSupported,
        3,
        "it does not know this request",
        "the server may be older than the request: compare the versions",
        _CALLER,
    ),
    _Row(TransactionFailed, 4, "the transaction failed", "look at the server's log"),
    _Row(
        MessageRefused,
        13,
        "the message is not acceptable",
        "keep the body under 4 MiB, all properties under 32 KiB and a delay under 3 days",
        _CALLER,
    ),
    _Row(CannotStore, 14, "it cannot store now", retry=_ELSEWHERE),
    _Row(
        VersionNotSupported,
        15,
        "it does not support this version",
        "compare the versions of client and server",
        _CALLER,
    ),
    _Row(
        NoPermission,
        16,
        "permission denied",
        "check the topic's permission bits, the group's switches and the account's rights",
        _CALLER,
        _ELSEWHERE,
    ),
    _Row(TopicNotFound, 17, "the topic does not exist", "create it, or check the spelling", _CALLER, _ELSEWHERE),
    _Row(TopicExists, 18, "the topic exists already", "use it as it is, or choose another name", _CALLER),
    _Row(NotFound, 22, "there is nothing under that name", "check the name, the key or the time asked for", _CALLER),
    _Row(
        SubscriptionUnreadable,
        23,
        "the subscription's expression cannot be read",
        "tags look like: paid || refunded",
        _CALLER,
    ),
    _Row(
        SubscriptionMissing,
        24,
        "it does not know this subscription",
        "all members of a group must subscribe to the same topics",
        retry=_LATER,
    ),
    _Row(SubscriptionStale, 25, "it knows an older subscription", retry=_LATER),
    _Row(GroupNotFound, 26, "the group does not exist", "create it, or check the spelling", _CALLER),
    _Row(FilterMissing, 27, "it has no filter for this group", retry=_LATER),
    _Row(FilterStale, 28, "it has an older filter", retry=_LATER),
    _Row(InvalidParameter, 29, "a parameter is not valid", "check topic, queue number and options", _CALLER),
    _Row(
        TransactionState,
        (200, 201, 202, 203),
        "the transaction is in another state",
        "wait for the server to check back",
    ),
    _Row(
        NoBuyerId,
        204,
        "the message lacks a buyer id",
        "send it to a broker that is not divided into units",
        _CALLER,
        _ELSEWHERE,
    ),
    _Row(
        NotInUnit,
        205,
        "the message belongs to another unit",
        "send it to a broker of its own unit",
        _CALLER,
        _ELSEWHERE,
    ),
    _Row(ConsumerOffline, 206, "no member of the group is online", "start a consumer of the group first", _CALLER),
    _Row(ConsumerTimedOut, 207, "the member it asked did not answer in time", fault=Fault.PEER, retry=_LATER),
    _Row(NoMessage, 208, "there is no such message", "check the id; it may also have been removed with age", _CALLER),
    _Row(PollingFull, 209, "too many polls wait already", retry=_LATER),
    _Row(PollingTimedOut, 210, "the poll ended with nothing", retry=_LATER),
    _Row(BrokerNotFound, 211, "there is no such broker", "check the broker's name against the cluster list", _CALLER),
    _Row(DispatchBehind, 212, "its index is behind its log", retry=_LATER),
    _Row(BroadcastGroup, 213, "the group is broadcasting", "ask its members: each keeps its own offsets", _CALLER),
    _Row(FlowControlled, 215, "it asks for a pause", retry=_LATER),
    _Row(NotLeader, 501, "another broker leads this queue", "refresh the route", retry=_LATER),
    _Row(
        IllegalOperation, 604, "it is too late for that", "the transaction was settled before; read its state", _CALLER
    ),
    _Row(GoingAway, 1500, "it is shutting down", retry=_ELSEWHERE),
    _Row(UserNotFound, 3001, "there is no such user", "create the user, or check the spelling", _CALLER),
    _Row(PolicyNotFound, 3002, "there is no such policy", "create the policy, or check the spelling", _CALLER),
)

for _row in _TABLE:
    _row.kind.codes = (_row.codes,) if isinstance(_row.codes, int) else _row.codes
    _row.kind.says, _row.kind.next_step, _row.kind.fault, _row.kind.retry = _row[2:]

_BY_CODE: dict[int, type[ServerError]] = {code: row.kind for row in _TABLE for code in row.kind.codes}


def error_class(code: int) -> type[ServerError]:
    """Return the class for a response code; an unknown code is a plain ServerError.

    >>> error_class(26).__name__, error_class(4711).__name__
    ('GroupNotFound', 'ServerError')
    """
    return _BY_CODE.get(code, ServerError)


_SYSTEM_ERROR = 1
_ACL_EXCEPTION = "AclException"
_CREDENTIALS_HINT = "check access_key and secret_key, and what that account may do"


def error_for(code: int, remark: str = "", *, server: str = "the server", next_step: str | None = None) -> ServerError:
    """Make the error that a response code and its remark stand for.

    >>> print(error_for(206, server="broker-a"))
    broker-a answered 206: no member of the group is online; start a consumer of the group first
    """
    if code == _SYSTEM_ERROR and _ACL_EXCEPTION in remark:
        # Servers of 4.9 report a refused key only by the name of a Java class.
        return NoPermission(remark, code=code, server=server, next_step=next_step or _CREDENTIALS_HINT)
    return error_class(code)(remark, code=code, server=server, next_step=next_step)
