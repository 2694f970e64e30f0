"""A member's protocol and a real broker: each action encoded, each response decoded, and a few messages to pull."""

from collections.abc import Sequence

from steelyard.balance.group.actions import Action, SendHeartbeat
from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.balance.group.events import Event, MembersChanged
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.model import Queue, Subscription
from steelyard.protocol.member_protocol import DecodedCommand, MemberProtocol, OutgoingCommand
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command
from tests.broker.broker_harness import BrokerHarness, message
from tests.broker.pull_requests import make_topic

BROKER, GROUP = "broker-0", "billing"
ME, OTHER = "10.0.0.1@1@sy1", "10.0.0.2@1@sy1"


def q(queue_id: int = 0, topic: str = "orders", broker: str = BROKER) -> Queue:
    """Name a queue."""
    return Queue(topic, broker, queue_id)


def options(member: str = ME, expression: str = "*", mode: ConsumeMode = ConsumeMode.CONCURRENT) -> MemberOptions:
    """Make a member that wants orders."""
    return MemberOptions(GROUP, member, {"orders": Subscription("orders", expression, version=5)}, mode)


def nothing_held(_about: Sequence[Queue] = ()) -> ClaimedQueues:
    """Hold nothing."""
    return ClaimedQueues()


class BrokerDialogue:
    """The protocol of one member on one connection to a broker."""

    def __init__(
        self, harness: BrokerHarness, wanted: MemberOptions | None = None, claimed: ClaimedQueues | None = None
    ) -> None:
        self.harness, self.options = harness, wanted or options()
        self.codec = MemberProtocol(self.options, f"instance of {self.options.id}")
        self.claimed = claimed or ClaimedQueues()
        self.peer = harness.connect()
        self._numbers: dict[int, int] = {}

    @classmethod
    def registered(
        cls, harness: BrokerHarness, wanted: MemberOptions | None = None, claimed: ClaimedQueues | None = None
    ) -> "BrokerDialogue":
        """Make one whose first heartbeat was answered."""
        talk = cls(harness, wanted, claimed)
        talk.ask(SendHeartbeat(BROKER, held={}, strategy="sticky"))
        harness.sent_to(talk.peer)
        return talk

    def ask(self, action: Action) -> Event:
        """Send an action, follow what comes of it, and return the one event it ends with; notifications are skipped."""
        received = [event for event in self.send_action(action) if not isinstance(event, MembersChanged)]
        assert len(received) == 1, received
        return received[0]

    def send_action(self, action: Action) -> list[Event]:
        """Send an action and decode all that is there by then."""
        outgoing = self.codec.encode(action, self.harness.now_ms)
        assert outgoing is not None
        self._send(outgoing)
        return self.receive()

    def receive(self) -> list[Event]:
        """Decode what arrived, answer and send on, until there is nothing more."""
        events: list[Event] = []
        while commands := self.harness.sent_to(self.peer):
            for command in commands:
                received = self._meant(command)
                events += received.events
                for reply in received.replies:
                    self.harness.respond(command, self.peer, reply.fields, reply.body, code=reply.code)
                for outgoing in received.requests:
                    self._send(outgoing)
        return events

    def _meant(self, command: Command) -> DecodedCommand:
        if command.is_response:
            command = Command(
                command.code, command.fields, command.body, self._numbers[command.opaque], command.flag, command.remark
            )
        return self.codec.decode(BROKER, command, self.harness.now_ms, self._claimed)

    def _claimed(self, _about: Sequence[Queue]) -> ClaimedQueues:
        return self.claimed

    def _send(self, outgoing: OutgoingCommand) -> None:
        command = outgoing.command
        number = self.harness.send(command.code, command.fields, command.body, peer=self.peer)
        self._numbers[number] = command.opaque


def stocked(*tags: str, queues: int = 2) -> BrokerHarness:
    """Return a broker with a topic of orders, and one message in its first queue for each tag."""
    harness = BrokerHarness()
    make_topic(harness, "orders", queues=queues)
    for number, tag in enumerate(tags):
        properties = f"TAGS\x01{tag}\x02" if tag else None
        harness.request(Code.SEND_MESSAGE_V2, message(properties=properties), b"m%d" % number)
    return harness
