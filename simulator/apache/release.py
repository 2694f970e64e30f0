"""The two releases of Apache's broker and client that are modelled, where they differ."""

from enum import Enum


class ApacheRelease(Enum):
    """A release, by its name in scenarios.

    >>> ApacheRelease("4.9").server_version, ApacheRelease("5.x").server_version
    (407, 513)
    """

    V4 = "4.9"
    V5 = "5.x"

    @property
    def server_version(self) -> int:
        """The version number of its servers: 4.9.7, 5.5.0."""
        return 407 if self is ApacheRelease.V4 else 513

    @property
    def client_version(self) -> int:
        """The version number of its clients: 4.9.8, 5.5.0."""
        return 409 if self is ApacheRelease.V4 else 513
