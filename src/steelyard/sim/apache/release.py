"""The two releases of Apache's broker and client that are modelled, where they differ."""

from enum import Enum

__all__ = ["Release"]


class Release(Enum):
    """A release, by the word that plans of histories use for it.

    >>> Release("4.9").server_version, Release("5.x").server_version
    (407, 513)
    """

    V4 = "4.9"
    V5 = "5.x"

    @property
    def server_version(self) -> int:
        """The number that its servers say: 4.9.7, 5.5.0."""
        return 407 if self is Release.V4 else 513

    @property
    def client_version(self) -> int:
        """The number that its clients say: 4.9.8, 5.5.0."""
        return 409 if self is Release.V4 else 513
