"""What a browser asks, read with care: every value has a kind and a limit, and what is wrong is said in a sentence."""

from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from steelyard.errors import ConfigurationError

__all__ = ["Ask"]

T = TypeVar("T")

_MOST_BODY = 256 * 1024
_LONGEST_TEXT = 4_096
_LONGEST_ASKER = 100


class Ask:
    """One question of a browser."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.command: str | None = None
        """The command line that does the same, once the handler has said it."""

    @property
    def asker(self) -> str:
        """Who asks: an address, and whom a proxy says that it asks for, which anybody can say."""
        client, said = self._request.client, self._request.headers.get("x-forwarded-for")
        where = "somebody" if client is None else f"{client.host}:{client.port}"
        return where if said is None else f"{where} (says it asks for {said[:_LONGEST_ASKER]!r})"

    def path(self, name: str) -> str:
        """Return a part of the path."""
        return str(self._request.path_params[name])

    def means(self, command: str) -> None:
        """Say which command line does what is asked for: it is shown, and stands in the audit line."""
        self.command = command

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return a text of the query, or the default if it is not there or empty."""
        found = self._request.query_params.get(name)
        if found is not None and len(found) > _LONGEST_TEXT:
            raise ConfigurationError(
                f"{name} has {len(found)} letters", next_step=f"give {_LONGEST_TEXT} of them at most"
            )
        return found or default

    def wanted(self, name: str) -> str:
        """Return a text of the query that has to be there."""
        found = self.text(name)
        if found is None:
            raise ConfigurationError(f"{name} is missing", next_step=f"add {name}= to the address")
        return found

    def whole(self, name: str, default: int, *, least: int = 0, most: int) -> int:
        """Return a whole number of the query."""
        found = self.text(name)
        if found is None:
            return default
        try:
            number = int(found)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ConfigurationError(f"{name} is {found[:40]!r}", next_step=f"give {least} to {most}")
        return number

    def flag(self, name: str) -> bool:
        """Say whether something of the query is switched on."""
        return self.text(name) in ("1", "true", "yes", "on")

    async def body(self, kind: type[T]) -> T:
        """Return what was posted, as a value of this kind."""
        taken = bytearray()
        try:
            async for piece in self._request.stream():
                taken += piece
                if len(taken) > _MOST_BODY:
                    raise ConfigurationError(
                        f"what was posted is larger than {_MOST_BODY} bytes", next_step="post less at a time"
                    )
        except ClientDisconnect:
            raise ConfigurationError("who posted this went away before its end", next_step="post it again") from None
        try:
            return msgspec.json.decode(bytes(taken), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"what was posted cannot be read: {error}", next_step="see what the page itself posts"
            ) from None
