"""Name servers: their state, their own settings, and the key-value settings that they keep.

Name servers do not know of each other: a change is sent to each that can be reached.
"""

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.client.admin.admin_session import AdminPart, check_ok, gather_limited
from steelyard.client.suggestions import closest_match
from steelyard.errors import NotFound, SteelyardError
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import decode_settings, encode_settings
from steelyard.wire.bodies.topics import ClusterBody
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.nameserver import KVConfigRequest, KVConfigResponse


@dataclass(frozen=True, slots=True)
class NameServerStatus:
    """A name server and the number of brokers that it knows; ``problem`` says why that is not known."""

    address: str
    brokers: int | None = None
    problem: str | None = None


class NameServerAdmin(AdminPart):
    """Name servers: `Admin.name_servers`."""

    async def key_values(self, namespace: str) -> dict[str, str]:
        """Return the key-value settings of a namespace."""
        return await self._session.key_values(namespace)

    async def key_value(self, namespace: str, key: str) -> str:
        """Return one key-value setting."""
        answer = await self._session.request_name_server(RequestCode.GET_KV_CONFIG, KVConfigRequest(namespace, key))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            meant, namesrv = closest_match(key, await self.key_values(namespace)), str(self._session.config)
            hint = f"did you mean {meant!r}?" if meant else "check the namespace and the key"
            what = f"{namesrv} has no key {key!r} in namespace {namespace!r}"
            raise NotFound(code=answer.code, server=namesrv, what=what, next_step=hint)
        return check_ok(answer, self._session.config).header(KVConfigResponse).value or ""

    async def set_key_value(self, namespace: str, key: str, value: str) -> None:
        """Set a key-value setting."""
        await self._session.update_name_servers(RequestCode.PUT_KV_CONFIG, KVConfigRequest(namespace, key, value))

    async def delete_key_value(self, namespace: str, key: str) -> None:
        """Delete a key-value setting; it is an error if it does not exist."""
        await self.key_value(namespace, key)
        await self._session.update_name_servers(RequestCode.DELETE_KV_CONFIG, KVConfigRequest(namespace, key))

    async def config(self, names: Iterable[str] = ()) -> dict[str, dict[str, str]]:
        """Return the settings of every name server that can be reached, by its address, with the server's own names.

        With ``names`` only those; one that a name server does not have is an error.
        """
        wanted = tuple(names)
        found: dict[str, dict[str, str]] = {}
        for address, answer in await self._session.request_each_name_server(RequestCode.GET_NAMESRV_CONFIG):
            settings = decode_settings(check_ok(answer, address).body)
            for name in wanted:
                if name not in settings:
                    raise _setting_not_found(name, settings, address)
            found[address] = {name: settings[name] for name in wanted or sorted(settings)}
        return found

    async def set_config(self, settings: Mapping[str, str]) -> None:
        """Change settings of all running name servers; one that they do not have is an error.

        A name server accepts and ignores a name that it does not know, so the names are checked before.
        """
        await self.config(settings)
        await self._session.update_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, {}, encode_settings(settings))

    async def _status(self, address: str) -> NameServerStatus:
        try:
            answer = await self._session.request(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            if answer.code != ResponseCode.SUCCESS:
                return NameServerStatus(address, problem=answer.remark or f"it answered {answer.code}")
            return NameServerStatus(address, len(decode_body(ClusterBody, answer.body).brokers))
        except SteelyardError as error:
            return NameServerStatus(address, problem=error.what)

    async def list(self) -> builtins.list[NameServerStatus]:
        """List the configured name servers, and whether they answer."""
        return await gather_limited(self._status, self._session.config.name_servers)


def _setting_not_found(name: str, known: Mapping[str, str], address: str) -> NotFound:
    meant = closest_match(name, known)
    hint = f"Did you mean {meant!r}?" if meant else "See which it has: steelyard cluster name-server config show"
    what = f"name server {address} has no setting {name!r}."
    return NotFound(server=address, what=what, next_step=hint)
