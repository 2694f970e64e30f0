"""What a name server knows, and the part of it that outlives the process.

Brokers and routes are not saved: brokers bring them again. Key-value settings and changed switches are, as one value in
Apache's ``kvConfig.json`` form, with the switches beside the table, where Apache's name server passes over them.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from steelyard.errors import ConfigurationError, ProtocolError, ServerError
from steelyard.nameserver.key_values import KeyValues
from steelyard.nameserver.options import NameServerOptions
from steelyard.nameserver.registry import Registry
from steelyard.nameserver.settings import change_settings
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.body import Body, always_map
from steelyard.wire.command import Command
from steelyard.wire.peers import Peer

__all__ = ["Handler", "State"]


class _Saved(Body, frozen=True, kw_only=True):
    key_values: Mapping[str, Mapping[str, str]] = always_map("configTable")
    settings: Mapping[str, str] = always_map()


class State:
    """All tables of one name server."""

    def __init__(self, options: NameServerOptions, saved: bytes | None) -> None:
        was = _read(saved)
        self.changed_settings = dict(was.settings)
        try:
            self.options = change_settings(options, self.changed_settings)
        except ServerError as error:
            raise _unfit(error.remark) from None
        self.key_values = KeyValues(was.key_values)
        self.registry = Registry()
        self.is_changed = False
        """Whether there is something to save."""

    def saved(self) -> bytes:
        """Return what outlives the process."""
        return encode_body(_Saved(key_values=self.key_values.saved(), settings=self.changed_settings))


def _read(saved: bytes | None) -> _Saved:
    if not saved:
        return _Saved()
    try:
        return decode_body(_Saved, saved)
    except ProtocolError as error:
        raise _unfit(str(error)) from None


def _unfit(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the saved settings of the name server cannot be used: {why}",
        next_step="mend the file, or move it away to start without settings",
    )


Handler: TypeAlias = Callable[[State, Command, Peer, int], Command]
"""Takes (state, request, peer, now_ms) and returns the answer; it says no by raising an error of the tree."""
