"""Java's numbers, and what a typed reader raises when something else arrives.

Whatever is read has Java's bounds, so that it can also be packed and sent on.
"""

from typing import Annotated

from msgspec import Meta

__all__ = ["UNREADABLE", "Double", "Int32", "Int64"]

Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
"""Java's int."""

Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Java's long."""

Double = Annotated[float, Meta(ge=-1.7976931348623157e308, le=1.7976931348623157e308)]
"""Java's double, without those that JSON cannot write."""

UNREADABLE = (ValueError, RecursionError)
"""What msgspec raises for any text: its own errors are ValueErrors, as are those of UTF-8 and of numbers too long."""
