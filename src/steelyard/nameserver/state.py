"""Name server state: all tables, and the part of them that outlives the process.

Brokers and routes are not saved: brokers register again. The key-value config and changed switches are, in the form of
Apache's ``kvConfig.json``, with the switches beside the table, where Apache's name server ignores them.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from steelyard.errors import ConfigurationError, ProtocolError, ServerError
from steelyard.nameserver.broker_registry import BrokerRegistry
from steelyard.nameserver.kv_config import KVConfig
from steelyard.nameserver.options import NameServerOptions, apply_apache_settings
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.command import Command, Peer
from steelyard.wire.json_body import JsonBody, always_written_map

__all__ = ["NameServerRequestHandler", "NameServerState"]


class _SavedState(JsonBody, frozen=True, kw_only=True):
    key_values: Mapping[str, Mapping[str, str]] = always_written_map("configTable")
    settings: Mapping[str, str] = always_written_map()


class NameServerState:
    """All tables of one name server."""

    def __init__(self, options: NameServerOptions, saved: bytes | None) -> None:
        loaded = _decode_saved(saved)
        self.changed_settings = dict(loaded.settings)
        try:
            self.options = apply_apache_settings(options, self.changed_settings)
        except ServerError as error:
            raise _invalid_saved_state(error.remark) from None
        self.kv_config = KVConfig(loaded.key_values)
        self.registry = BrokerRegistry()
        self.has_unsaved_changes = False
        """Whether there is something to save."""

    def encode(self) -> bytes:
        """Return what outlives the process."""
        return encode_body(_SavedState(key_values=self.kv_config.export(), settings=self.changed_settings))


def _decode_saved(saved: bytes | None) -> _SavedState:
    if not saved:
        return _SavedState()
    try:
        return decode_body(_SavedState, saved)
    except ProtocolError as error:
        raise _invalid_saved_state(str(error)) from None


def _invalid_saved_state(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the saved settings of the name server cannot be used: {why}",
        next_step="repair the file, or move it away to start without settings",
    )


NameServerRequestHandler: TypeAlias = Callable[[NameServerState, Command, Peer, int], Command]
"""Takes (state, request, peer, now_ms) and returns the response; it refuses by raising an error of the tree."""
