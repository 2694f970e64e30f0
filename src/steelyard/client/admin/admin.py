"""`Admin`, the administrator's client: one part for each noun, all over one session."""

from typing import Self

from steelyard.client.admin.access import AccessAdmin
from steelyard.client.admin.admin_session import AdminSession
from steelyard.client.admin.brokers import BrokerAdmin
from steelyard.client.admin.dead_letters import DeadLetterAdmin
from steelyard.client.admin.export import ClusterExport, export_cluster
from steelyard.client.admin.groups import GroupAdmin
from steelyard.client.admin.messages import MessageAdmin
from steelyard.client.admin.name_servers import NameServerAdmin
from steelyard.client.admin.offsets import OffsetAdmin
from steelyard.client.admin.producers import ProducerAdmin
from steelyard.client.admin.topics import TopicAdmin
from steelyard.client.config import ClientConfig, NamesrvOrConfig
from steelyard.client.process_guard import AsyncClient


class Admin(AsyncClient):
    """Administers a cluster: ours, or Apache's from 4.9 on.

    It connects with the first request, if it was not opened before. What a broker cannot report is left out and logged
    once; what was requested and cannot be done is an error that says why.
    """

    def __init__(self, namesrv: NamesrvOrConfig = None) -> None:
        super().__init__()
        self._session = AdminSession(ClientConfig.of(namesrv), self)
        self.topics = TopicAdmin(self._session)
        self.offsets = OffsetAdmin(self._session)
        self.groups = GroupAdmin(self._session, self.topics)
        self.messages = MessageAdmin(self._session, self.groups)
        self.dead_letters = DeadLetterAdmin(self._session, self.topics, self.messages)
        self.producers = ProducerAdmin(self._session)
        self.brokers = BrokerAdmin(self._session)
        self.name_servers = NameServerAdmin(self._session)
        self.access = AccessAdmin(self._session, self.brokers)

    async def open(self) -> Self:
        """Connect now; otherwise the first request does it."""
        await self._session.open()
        return self

    async def close(self) -> None:
        """Disconnect. It may be called again; no request can be sent afterwards."""
        if not self.is_forked:
            await self._session.close()

    async def export(self) -> ClusterExport:
        """Return everything of a cluster except messages. Secrets in settings are left out."""
        return await export_cluster(self._session, self.topics, self.brokers, self.name_servers)

    def __repr__(self) -> str:
        """Name its servers."""
        return f"{type(self).__name__}({str(self._session.config)!r})"
