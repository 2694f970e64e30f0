"""What clients may do with a topic, as it is typed and shown."""

from enum import StrEnum

from steelyard.errors import ConfigurationError
from steelyard.model import Permission

__all__ = ["May"]


class May(StrEnum):
    """What clients may do with a topic.

    >>> May.of(Permission(6)), May.READ.permission
    (<May.BOTH: 'read-write'>, <Permission.READ: 4>)
    """

    BOTH = "read-write"
    READ = "read"
    WRITE = "write"
    NOTHING = "nothing"

    @property
    def permission(self) -> Permission:
        """The same as bits."""
        return _BITS[self]

    @classmethod
    def of(cls, permission: Permission) -> "May":
        """Return what some bits allow; those that are not for clients are left out."""
        wanted = permission & (Permission.READ | Permission.WRITE)
        return next(each for each, bits in _BITS.items() if bits == wanted)

    @classmethod
    def named(cls, word: str) -> "May":
        """Return what a word means.

        >>> May.named("everything")
        Traceback (most recent call last):
        steelyard.errors.ConfigurationError: clients cannot 'everything'; say read-write, read, write or nothing
        """
        try:
            return cls(word)
        except ValueError:
            raise ConfigurationError(
                f"clients cannot {word!r}", next_step="say read-write, read, write or nothing"
            ) from None


_BITS = {
    May.BOTH: Permission.READ | Permission.WRITE,
    May.READ: Permission.READ,
    May.WRITE: Permission.WRITE,
    May.NOTHING: Permission(0),
}
