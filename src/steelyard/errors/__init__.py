"""Every error Steelyard raises, in one tree.

::

    SteelyardError
    ├── ConfigurationError            what was asked for cannot be done as asked
    │   ├── MissingExtra              an optional package is not installed
    │   ├── RowRefused                a row of a frame cannot be sent; says which, and why
    │   ├── SelectorFailed            a selector named no queue for a message
    │   └── UnknownStrategy           no allocation strategy has that name
    ├── SendFailed                    a message was not stored; lists every attempt
    │   └── PartlySent                some of many messages were not stored; says which
    ├── MessagesLost                  messages that were to be read are not there any more; says which
    ├── JobFailed                     a job on Spark began and could not go on
    ├── NotAsExpected                 a test expected something else of a cluster; says what was there
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

from steelyard.errors.answers import (
    BroadcastGroup,
    BrokerNotFound,
    CannotStore,
    ConsumerOffline,
    ConsumerTimedOut,
    ControllerRefused,
    DispatchBehind,
    FilterMissing,
    FilterStale,
    FlowControlled,
    GoingAway,
    GroupNotFound,
    IllegalOperation,
    InvalidParameter,
    MessageRefused,
    NoBuyerId,
    NoMessage,
    NoPermission,
    NotFound,
    NotInUnit,
    NotLeader,
    PolicyNotFound,
    PollingFull,
    PollingTimedOut,
    RequestNotSupported,
    ServerBusy,
    ServerError,
    ServerFailed,
    SubscriptionMissing,
    SubscriptionStale,
    SubscriptionUnreadable,
    TopicExists,
    TopicNotFound,
    TransactionFailed,
    TransactionState,
    UserNotFound,
    VersionNotSupported,
    error_class,
    error_for,
)
from steelyard.errors.causes import (
    AllocationError,
    BrokerNotInRoute,
    CannotConnect,
    CannotListen,
    ConfigurationError,
    DiskFailed,
    DiskFull,
    Fault,
    ImpossibleEvent,
    JobFailed,
    LimitExceeded,
    LineClosed,
    MalformedBody,
    MalformedFrame,
    MalformedHeader,
    MalformedRecord,
    MessagesLost,
    MissingExtra,
    NoNameServer,
    NoRoute,
    NotAsExpected,
    NotAStore,
    PartlySent,
    ProtocolError,
    QueuesLost,
    ReplyFailed,
    ReplyTimedOut,
    Retry,
    RowRefused,
    SelectorFailed,
    SendFailed,
    SteelyardError,
    StoreError,
    StoreLocked,
    StoreReadOnly,
    TimedOut,
    TransportError,
    UnknownStrategy,
)

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
    "JobFailed",
    "LimitExceeded",
    "LineClosed",
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
]

# A traceback names what people import, and not where it happens to be written.
for _name in __all__:
    globals()[_name].__module__ = __name__
