"""Answers of servers that say no: one class for each meaning, by its response codes."""

from steelyard.errors.causes import Fault, Retry, SteelyardError

__all__ = [
    "BroadcastGroup",
    "BrokerNotFound",
    "CannotStore",
    "ConsumerOffline",
    "ConsumerTimedOut",
    "ControllerRefused",
    "DispatchBehind",
    "FilterMissing",
    "FilterStale",
    "FlowControlled",
    "GoingAway",
    "GroupNotFound",
    "IllegalOperation",
    "InvalidParameter",
    "MessageRefused",
    "NoBuyerId",
    "NoMessage",
    "NoPermission",
    "NotFound",
    "NotInUnit",
    "NotLeader",
    "PolicyNotFound",
    "PollingFull",
    "PollingTimedOut",
    "RequestNotSupported",
    "ServerBusy",
    "ServerError",
    "ServerFailed",
    "SubscriptionMissing",
    "SubscriptionStale",
    "SubscriptionUnreadable",
    "TopicExists",
    "TopicNotFound",
    "TransactionFailed",
    "TransactionState",
    "UserNotFound",
    "VersionNotSupported",
    "error_class",
    "error_for",
]


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


_FAILED = 1
_ACCESS = "AclException"
_KEYS = "check access_key and secret_key, and what that account may do"


def error_for(code: int, remark: str = "", *, server: str = "the server", next_step: str | None = None) -> ServerError:
    """Make the error that a response code and its remark stand for.

    >>> print(error_for(206, server="broker-a"))
    broker-a answered 206: no member of the group is online; start a consumer of the group first
    """
    if code == _FAILED and _ACCESS in remark:
        # Servers of 4.9 say by the name of a Java class alone that this is about keys and rights.
        return NoPermission(remark, code=code, server=server, next_step=next_step or _KEYS)
    return error_class(code)(remark, code=code, server=server, next_step=next_step)
