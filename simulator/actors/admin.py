"""An admin in a simulated world: creates topics and adds queues, and retries until the broker confirms."""

from typing import TYPE_CHECKING

from simulator.network import SimulatedConnection
from simulator.process import Process
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.headers.admin import CreateTopic

if TYPE_CHECKING:
    from simulator.world import World

_RETRY_MS = 200
_READ_WRITE = 6


class AdminProcess(Process):
    """Creates topics at brokers, with one connection for each request."""

    def __init__(self, world: "World", name: str = "operator", host: str = "10.0.9.9") -> None:
        super().__init__(world, name, host)
        self._pending: dict[int, tuple[str, str, int]] = {}
        self._created: dict[tuple[str, str], int] = {}

    def create_topic(self, address: str, topic: str, queues: int) -> None:
        """Create a topic on the broker at an address, or give it more queues; it never gets fewer."""
        if queues > self._created.get((address, topic), 0):
            connection = self.world.network.connect(self, address)
            self._pending[connection.number] = address, topic, queues

    @property
    def is_done(self) -> bool:
        """Whether every request was confirmed."""
        return not self._pending

    def connection_opened(self, connection: SimulatedConnection) -> None:
        """Send the request."""
        _, topic, queues = self._pending[connection.number]
        header = CreateTopic(topic, "TBW102", queues, queues, _READ_WRITE, "SINGLE_TAG", False)
        connection.send(Command(RequestCode.UPDATE_AND_CREATE_TOPIC, header, opaque=connection.number))

    def command_received(self, connection: SimulatedConnection, command: Command) -> None:
        """Take the response; after an error the request is repeated."""
        connection.close()
        if command.code:
            self.connection_closed(connection)
        else:
            address, topic, queues = self._pending.pop(connection.number)
            self._created[address, topic] = max(queues, self._created.get((address, topic), 0))

    def connection_closed(self, connection: SimulatedConnection) -> None:
        """Repeat the request after a while."""
        request = self._pending.pop(connection.number, None)
        if request is not None:
            # It stays pending meanwhile, so that the world is not at rest before it is confirmed.
            self._pending[-connection.number] = request
            self.call_later(_RETRY_MS, lambda: self._retry(connection.number))

    def _retry(self, number: int) -> None:
        self.create_topic(*self._pending.pop(-number))
