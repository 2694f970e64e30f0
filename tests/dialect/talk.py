"""A voice and a real broker on a desk: each action said, each answer heard, and a few messages to pull."""

from collections.abc import Sequence

from tests.broker.desk import Desk, message
from tests.broker.reader import make_topic

from steelyard.balance.actions import Action, Heartbeat
from steelyard.balance.events import Event, MembersChanged
from steelyard.balance.holdings import Holdings
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.dialect.voice import Heard, Said, Voice
from steelyard.model import Queue, Subscription
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command

__all__ = ["BROKER", "GROUP", "ME", "OTHER", "Talk", "nothing_held", "options", "q", "stocked"]

BROKER, GROUP = "broker-0", "billing"
ME, OTHER = "10.0.0.1@1@sy1", "10.0.0.2@1@sy1"


def q(queue_id: int = 0, topic: str = "orders", broker: str = BROKER) -> Queue:
    """Name a queue."""
    return Queue(topic, broker, queue_id)


def options(member: str = ME, expression: str = "*", mode: Mode = Mode.CONCURRENT) -> MemberOptions:
    """Make a member that wants orders."""
    return MemberOptions(GROUP, member, {"orders": Subscription("orders", expression, version=5)}, mode)


def nothing_held(_about: Sequence[Queue] = ()) -> Holdings:
    """Hold nothing."""
    return Holdings()


class Talk:
    """One member's voice on one line to a broker."""

    def __init__(self, desk: Desk, wanted: MemberOptions | None = None, holdings: Holdings | None = None) -> None:
        self.desk, self.options = desk, wanted or options()
        self.voice = Voice(self.options, f"instance of {self.options.id}")
        self.holdings = holdings or Holdings()
        self.peer = desk.line()
        self._numbers: dict[int, int] = {}

    @classmethod
    def registered(cls, desk: Desk, wanted: MemberOptions | None = None, holdings: Holdings | None = None) -> "Talk":
        """Make one whose first heartbeat was answered."""
        talk = cls(desk, wanted, holdings)
        talk.ask(Heartbeat(BROKER, held={}, strategy="sticky"))
        desk.sent_to(talk.peer)
        return talk

    def ask(self, action: Action) -> Event:
        """Say an action, follow what comes of it, and return the one event it ends with; notices are left out."""
        heard = [event for event in self.say(action) if not isinstance(event, MembersChanged)]
        assert len(heard) == 1, heard
        return heard[0]

    def say(self, action: Action) -> list[Event]:
        """Say an action and hear all that is there by then."""
        said = self.voice.say(action, self.desk.now_ms)
        assert said is not None
        self._send(said)
        return self.hear()

    def hear(self) -> list[Event]:
        """Hear what is on the line, answer and ask on, until there is nothing more."""
        events: list[Event] = []
        while commands := self.desk.sent_to(self.peer):
            for command in commands:
                heard = self._meant(command)
                events += heard.events
                for reply in heard.replies:
                    self.desk.reply(command, self.peer, reply.fields, reply.body, code=reply.code)
                for said in heard.says:
                    self._send(said)
        return events

    def _meant(self, command: Command) -> Heard:
        if command.is_answer:
            command = Command(
                command.code, command.fields, command.body, self._numbers[command.opaque], command.flag, command.remark
            )
        return self.voice.hear(BROKER, command, self.desk.now_ms, self._holdings)

    def _holdings(self, _about: Sequence[Queue]) -> Holdings:
        return self.holdings

    def _send(self, said: Said) -> None:
        command = said.command
        number = self.desk.say(command.code, command.fields, command.body, peer=self.peer)
        self._numbers[number] = command.opaque


def stocked(*tags: str, queues: int = 2) -> Desk:
    """Return a desk with a topic of orders, and one message in its first queue for each tag."""
    desk = Desk()
    make_topic(desk, "orders", queues=queues)
    for number, tag in enumerate(tags):
        properties = f"TAGS\x01{tag}\x02" if tag else None
        desk.ask(Code.SEND_MESSAGE_V2, message(properties=properties), b"m%d" % number)
    return desk
