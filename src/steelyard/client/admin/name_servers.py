"""What name servers keep besides routes: settings by namespace and key, and their own.

Name servers do not know of each other: whatever is told is told to each that can be reached, and what one of them has
may differ from what the others have.
"""

from collections.abc import Iterable, Mapping

from steelyard.client.admin.asking import Asking, together
from steelyard.client.nearest import nearest
from steelyard.errors import NotFound, TransportError, error_for
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.settings_text import decode_settings, encode_settings
from steelyard.wire.bodies.shared import TextTable
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.headers.nameserver import KeyValue, KeyValueAnswer, Namespace

__all__ = ["NameServers"]


class NameServers(Asking):
    """What an administrator does with name servers."""

    async def key_values(self, namespace: str) -> dict[str, str]:
        """Return the settings of a namespace; none if nobody put one there."""
        answer = await self._ask_names(RequestCode.GET_KVLIST_BY_NAMESPACE, Namespace(namespace))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=str(self._connect))
        return dict(sorted(decode_body(TextTable, answer.body).table.items()))

    async def key_value(self, namespace: str, key: str) -> str:
        """Return one setting of a namespace."""
        answer = await self._ask_names(RequestCode.GET_KV_CONFIG, KeyValue(namespace, key))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            meant = nearest(key, await self.key_values(namespace))
            raise NotFound(
                code=answer.code,
                server=str(self._connect),
                what=f"{self._connect} keeps nothing under {key!r} in namespace {namespace!r}",
                next_step=f"did you mean {meant!r}?" if meant else "check the namespace and the key",
            )
        if answer.code != ResponseCode.SUCCESS:
            raise error_for(answer.code, answer.remark or "", server=str(self._connect))
        return answer.header(KeyValueAnswer).value or ""

    async def set_key_value(self, namespace: str, key: str, value: str) -> None:
        """Put a setting into a namespace."""
        await self._tell_name_servers(RequestCode.PUT_KV_CONFIG, KeyValue(namespace, key, value))

    async def delete_key_value(self, namespace: str, key: str) -> None:
        """Take a setting away; one that is not there is an error."""
        await self.key_value(namespace, key)
        await self._tell_name_servers(RequestCode.DELETE_KV_CONFIG, KeyValue(namespace, key))

    async def name_server_config(self, names: Iterable[str] = ()) -> dict[str, dict[str, str]]:
        """Return the settings of every name server that answers, by its address, in the server's own words.

        With ``names`` only those; one that a name server does not have is an error.
        """
        wanted = tuple(names)

        async def ask(address: str) -> tuple[str, dict[str, str]] | TransportError:
            try:
                answer = await self._ask_at(address, RequestCode.GET_NAMESRV_CONFIG)
            except TransportError as error:
                self._tell_once(f"name server {address} is left out: {error.what}")
                return error
            if answer.code != ResponseCode.SUCCESS:
                raise error_for(answer.code, answer.remark or "", server=address)
            settings = decode_settings(answer.body)
            for name in wanted:
                if name not in settings:
                    raise _missing_setting(name, settings, address)
            return address, {name: settings[name] for name in wanted or sorted(settings)}

        found = await together(ask, self._connect.name_servers)
        told = dict(each for each in found if not isinstance(each, TransportError))
        if not told:
            raise next(each for each in found if isinstance(each, TransportError))
        return told

    async def set_name_server_config(self, settings: Mapping[str, str]) -> None:
        """Change settings of all name servers while they run; one that they do not have is an error.

        A name server says yes to a name that it does not know, and forgets it: so they are asked before.
        """
        await self.name_server_config(settings)
        await self._tell_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, {}, encode_settings(settings))


def _missing_setting(name: str, known: Mapping[str, str], address: str) -> NotFound:
    meant = nearest(name, known)
    return NotFound(
        code=int(ResponseCode.QUERY_NOT_FOUND),
        server=address,
        what=f"name server {address} has no setting {name!r}.",
        next_step=f"Did you mean {meant!r}?"
        if meant
        else "See which it has: steelyard cluster name-server config show",
    )
