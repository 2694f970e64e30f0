"""Headers of sends in the form that old clients use."""

from msgspec import structs

from steelyard.wire.headers.send import SendMessage, SendMessageV2


def with_long_names(header: SendMessageV2) -> SendMessage:
    """Return the same header with full names."""
    return SendMessage(**structs.asdict(header))
