"""Every error Steelyard raises, in one tree.

::

    SteelyardError
    ├── ConfigurationError            what was asked for cannot be done as asked
    │   ├── MissingExtra              an optional package is not installed
    │   ├── SelectorFailed            a selector named no queue for a message
    │   └── UnknownStrategy           no allocation strategy has that name
    ├── SendFailed                    a message was not stored; lists every attempt
    │   └── PartlySent                some of many messages were not stored; says which
    ├── QueuesLost                    what was polled of queues that others have by now cannot be committed
    ├── AllocationError               a plan cannot be made from these queues and members
    ├── ImpossibleEvent               a queue met what its life has no row for: a bug of ours
    ├── ProtocolError                 bytes that are not the protocol; says what and where
    │   ├── MalformedFrame            the line cannot go on: nobody knows where the next frame starts
    │   ├── MalformedHeader           the frame is whole, its header is not
    │   ├── MalformedBody             the header is fine, the body is not
    │   ├── MalformedRecord           a stored message is damaged
    │   └── LimitExceeded             larger than a named limit allows
    ├── StoreError                    the broker's memory cannot do it
    │   ├── DiskFailed                the disk said no
    │   │   └── DiskFull              there is no room left
    │   ├── StoreLocked               another process has the directory
    │   ├── NotAStore                 the directory holds something else, or is of a newer release
    │   └── StoreReadOnly             it serves reads and takes no writes: says why
    ├── TransportError                no answer came
    │   ├── CannotConnect  CannotListen  LineClosed  TimedOut
    │   └── NoNameServer  NoRoute  BrokerNotInRoute  ReplyTimedOut  ReplyFailed
    └── ServerError                   an answer came, and it says no
        ├── ServerFailed  ServerBusy  FlowControlled  CannotStore  GoingAway  NotLeader
        ├── RequestNotSupported  VersionNotSupported  InvalidParameter  IllegalOperation  NoPermission
        ├── MessageRefused  NoBuyerId  NotInUnit  NoMessage  PollingFull  PollingTimedOut
        ├── TopicNotFound  TopicExists  GroupNotFound  BrokerNotFound  NotFound  UserNotFound  PolicyNotFound
        ├── SubscriptionUnreadable  SubscriptionMissing  SubscriptionStale  FilterMissing  FilterStale
        ├── ConsumerOffline  ConsumerTimedOut  DispatchBehind  BroadcastGroup
        └── TransactionFailed  TransactionState  ControllerRefused

Each class says whose fault it is (``fault``) and whether trying again can help (``retry``), so that a sender decides by
asking the error and not by a list of its own. A message is a sentence that says what happened and where, followed by
what to do next. Facts are attributes. Every error survives pickling, because Spark carries them between processes.

Left out: answers that are results and not errors (stored but flush late, nothing to pull yet): see wire/codes.py.
"""

from enum import Enum

__all__ = [
    "AllocationError",
    "BroadcastGroup",
    "BrokerNotFound",
    "BrokerNotInRoute",
    "CannotConnect",
    "CannotListen",
    "CannotStore",
    "ConfigurationError",
    "ConsumerOffline",
    "ConsumerTimedOut",
    "ControllerRefused",
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
    "LimitExceeded",
    "LineClosed",
    "MalformedBody",
    "MalformedFrame",
    "MalformedHeader",
    "MalformedRecord",
    "MessageRefused",
    "MissingExtra",
    "NoBuyerId",
    "NoMessage",
    "NoNameServer",
    "NoPermission",
    "NoRoute",
    "NotAStore",
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

    >>> str(MissingExtra("LZ4 bodies", extra="fast"))
    "LZ4 bodies need a package that is not installed; run: pip install 'steelyard[fast]'"
    """

    def __init__(self, what: str, *, extra: str) -> None:
        self.extra = extra
        super().__init__(
            f"{what} need a package that is not installed", next_step=f"run: pip install 'steelyard[{extra}]'"
        )


class UnknownStrategy(ConfigurationError):
    """No allocation strategy has that name."""

    def __init__(self, name: str, *, known: tuple[str, ...], nearest: str | None = None) -> None:
        self.name, self.known, self.nearest = name, known, nearest
        hint = f"did you mean {nearest}? " if nearest else ""
        super().__init__(f"no allocation strategy is called {name!r}", next_step=f"{hint}known: {', '.join(known)}")


class SelectorFailed(ConfigurationError):
    """A selector raised, or named no queue of the list it was given: the message was not sent anywhere."""


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


class QueuesLost(SteelyardError):
    """What was polled of some queues cannot be committed: others have them by now, and the messages come again there.

    ``queues`` are the names of those, such as ``orders@broker-a:3``. What was polled of other queues is stored.

    >>> print(QueuesLost("queues went elsewhere before they were committed", queues=("orders@broker-a:3",)))
    queues went elsewhere before they were committed: orders@broker-a:3; commit sooner after a poll, or give more drain_s
    """

    fault = Fault.PEER
    next_step = "commit sooner after a poll, or give more drain_s"

    def __init__(self, what: str, *, queues: tuple[str, ...] = (), next_step: str | None = None) -> None:
        self.queues = queues
        super().__init__(f"{what}: {', '.join(queues)}" if queues else what, next_step=next_step)


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


class ServerError(SteelyardError):
    """An answer came, and it says no. ``code`` and ``remark`` are the server's own; ``server`` is who said it.

    ``what`` is a sentence of the asker, who knows more than the answer says; without it one is made of the answer.

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
        code: int,
        server: str = "the server",
        what: str | None = None,
        next_step: str | None = None,
    ) -> None:
        self.code, self.remark, self.server = code, remark, server
        detail = f" ({remark.strip()})" if remark.strip() else ""
        super().__init__(what or f"{server} answered {code}: {self.says}{detail}", next_step=next_step)


class ServerFailed(ServerError):
    """Something went wrong inside the server; its remark says what."""

    codes = (1,)
    says = "it failed"
    retry = Retry.ELSEWHERE


class ServerBusy(ServerError):
    """The server is overloaded and did not look at the request."""

    codes = (2,)
    says = "it is too busy"
    retry = Retry.ELSEWHERE


class RequestNotSupported(ServerError):
    """The server does not know this request."""

    codes = (3,)
    says = "it does not know this request"
    fault = Fault.CALLER
    next_step = "the server may be older than the request: compare the versions"


class TransactionFailed(ServerError):
    """The server could not run the transaction."""

    codes = (4,)
    says = "the transaction failed"
    next_step = "look at the server's log"


class MessageRefused(ServerError):
    """The message is too large, has too many properties, or asks for a delay that cannot be."""

    codes = (13,)
    says = "the message is not acceptable"
    fault = Fault.CALLER
    next_step = "keep the body under 4 MiB, all properties under 32 KiB and a delay under 3 days"


class CannotStore(ServerError):
    """The store is closed, the disk is full, or this is a replica."""

    codes = (14,)
    says = "it cannot store now"
    retry = Retry.ELSEWHERE


class VersionNotSupported(ServerError):
    """The server does not speak this version."""

    codes = (15,)
    says = "it does not support this version"
    fault = Fault.CALLER
    next_step = "compare the versions of client and server"


class NoPermission(ServerError):
    """This caller may not do this here."""

    codes = (16,)
    says = "permission denied"
    fault = Fault.CALLER
    retry = Retry.ELSEWHERE
    next_step = "check the topic's permission bits, the group's switches and the account's rights"


class TopicNotFound(ServerError):
    """The topic does not exist there."""

    codes = (17,)
    says = "the topic does not exist"
    fault = Fault.CALLER
    retry = Retry.ELSEWHERE
    next_step = "create it, or check the spelling"


class TopicExists(ServerError):
    """The topic exists already."""

    codes = (18,)
    says = "the topic exists already"
    fault = Fault.CALLER
    next_step = "use it as it is, or choose another name"


class NotFound(ServerError):
    """There is no such offset, message or setting."""

    codes = (22,)
    says = "there is nothing under that name"
    fault = Fault.CALLER
    next_step = "check the name, the key or the time asked for"


class SubscriptionUnreadable(ServerError):
    """The subscription's expression cannot be parsed."""

    codes = (23,)
    says = "the subscription's expression cannot be read"
    fault = Fault.CALLER
    next_step = "tags look like: paid || refunded"


class SubscriptionMissing(ServerError):
    """The broker knows no such subscription of the group."""

    codes = (24,)
    says = "it does not know this subscription"
    retry = Retry.LATER
    next_step = "all members of a group must subscribe to the same topics"


class SubscriptionStale(ServerError):
    """The broker knows an older version of the subscription; the next heartbeat mends it."""

    codes = (25,)
    says = "it knows an older subscription"
    retry = Retry.LATER


class GroupNotFound(ServerError):
    """The group does not exist there."""

    codes = (26,)
    says = "the group does not exist"
    fault = Fault.CALLER
    next_step = "create it, or check the spelling"


class FilterMissing(ServerError):
    """The broker has no compiled filter for this group yet."""

    codes = (27,)
    says = "it has no filter for this group"
    retry = Retry.LATER


class FilterStale(ServerError):
    """The broker's compiled filter is older than the subscription."""

    codes = (28,)
    says = "it has an older filter"
    retry = Retry.LATER


class InvalidParameter(ServerError):
    """A field of the request has an impossible value."""

    codes = (29,)
    says = "a parameter is not valid"
    fault = Fault.CALLER
    next_step = "check topic, queue number and options"


class TransactionState(ServerError):
    """An old server's word about a transaction's state."""

    codes = (200, 201, 202, 203)
    says = "the transaction is in another state"
    next_step = "wait for the server to check back"


class NoBuyerId(ServerError):
    """The unit needs a buyer id on the message."""

    codes = (204,)
    says = "the message lacks a buyer id"
    fault = Fault.CALLER
    retry = Retry.ELSEWHERE
    next_step = "send it to a broker that is not divided into units"


class NotInUnit(ServerError):
    """The message belongs to another unit."""

    codes = (205,)
    says = "the message belongs to another unit"
    fault = Fault.CALLER
    retry = Retry.ELSEWHERE
    next_step = "send it to a broker of its own unit"


class ConsumerOffline(ServerError):
    """Nobody of the group is online."""

    codes = (206,)
    says = "no member of the group is online"
    fault = Fault.CALLER
    next_step = "start a consumer of the group first"


class ConsumerTimedOut(ServerError):
    """The broker asked a member, and the member did not answer in time."""

    codes = (207,)
    says = "the member it asked did not answer in time"
    fault = Fault.PEER
    retry = Retry.LATER


class NoMessage(ServerError):
    """There is no such message."""

    codes = (208,)
    says = "there is no such message"
    fault = Fault.CALLER
    next_step = "check the id; it may also have been removed with age"


class PollingFull(ServerError):
    """Too many polls wait already."""

    codes = (209,)
    says = "too many polls wait already"
    retry = Retry.LATER


class PollingTimedOut(ServerError):
    """The poll ended with nothing."""

    codes = (210,)
    says = "the poll ended with nothing"
    retry = Retry.LATER


class BrokerNotFound(ServerError):
    """No such broker."""

    codes = (211,)
    says = "there is no such broker"
    fault = Fault.CALLER
    next_step = "check the broker's name against the cluster list"


class DispatchBehind(ServerError):
    """The broker's index lags behind its log."""

    codes = (212,)
    says = "its index is behind its log"
    retry = Retry.LATER


class BroadcastGroup(ServerError):
    """The group is broadcasting, so it has no shared offsets."""

    codes = (213,)
    says = "the group is broadcasting"
    fault = Fault.CALLER
    next_step = "ask its members: each keeps its own offsets"


class FlowControlled(ServerError):
    """The server asks for a pause."""

    codes = (215,)
    says = "it asks for a pause"
    retry = Retry.LATER


class NotLeader(ServerError):
    """Another broker leads this queue."""

    codes = (501,)
    says = "another broker leads this queue"
    retry = Retry.LATER
    next_step = "refresh the route"


class IllegalOperation(ServerError):
    """A commit or rollback came too late."""

    codes = (604,)
    says = "it is too late for that"
    fault = Fault.CALLER
    next_step = "the transaction was settled before; read its state"


class GoingAway(ServerError):
    """The server is shutting down: connect again and resend once."""

    codes = (1500,)
    says = "it is shutting down"
    retry = Retry.ELSEWHERE


class ControllerRefused(ServerError):
    """A controller refused; brokers meet this, clients do not."""

    codes = tuple(range(2000, 2017))
    says = "the controller refused"
    next_step = "look at the controller's log"


class UserNotFound(ServerError):
    """No such user."""

    codes = (3001,)
    says = "there is no such user"
    fault = Fault.CALLER
    next_step = "create the user, or check the spelling"


class PolicyNotFound(ServerError):
    """No such access policy."""

    codes = (3002,)
    says = "there is no such policy"
    fault = Fault.CALLER
    next_step = "create the policy, or check the spelling"


_BY_CODE: dict[int, type[ServerError]] = {code: kind for kind in ServerError.__subclasses__() for code in kind.codes}


def error_class(code: int) -> type[ServerError]:
    """Return the class for a response code; a code nobody knows is a plain ServerError.

    >>> error_class(26).__name__, error_class(4711).__name__
    ('GroupNotFound', 'ServerError')
    """
    return _BY_CODE.get(code, ServerError)


def error_for(code: int, remark: str = "", *, server: str = "the server", next_step: str | None = None) -> ServerError:
    """Make the error that a response code and its remark stand for.

    >>> print(error_for(206, server="broker-a"))
    broker-a answered 206: no member of the group is online; start a consumer of the group first
    """
    return error_class(code)(remark, code=code, server=server, next_step=next_step)
