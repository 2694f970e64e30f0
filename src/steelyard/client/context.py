"""A client for asyncio that is open within ``async with``: what all of them have in common."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from steelyard.client.guard import Guard

__all__ = ["Context"]


class Context(Guard, ABC):
    """Opened at the start of a block, closed at its end."""

    @abstractmethod
    async def open(self) -> Self:
        """Connect, if it is not connected."""

    @abstractmethod
    async def close(self) -> None:
        """Finish, and hang up; calling it again does nothing."""

    async def __aenter__(self) -> Self:
        """Open it."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()
