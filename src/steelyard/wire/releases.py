"""What a version number of the protocol is called."""

__all__ = ["release"]

_FIRST = 213
"""4.0.0. From here every version counts two: its snapshot comes before it."""


def release(version: int) -> str:
    """Return the release that a version number stands for; older ones stay numbers.

    >>> release(407), release(479), release(512), release(62)
    ('4.9.7', '5.3.3', '5.5.0-SNAPSHOT', 'version 62')
    """
    if version < _FIRST:
        return f"version {version}"
    number, odd = divmod(version - _FIRST + 1, 2)
    return f"{4 + number // 100}.{number // 10 % 10}.{number % 10}{'' if odd else '-SNAPSHOT'}"
