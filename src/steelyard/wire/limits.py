"""How much of anything a peer may send, each with its reason. A reader that meets more raises `LimitExceeded`.

A limit is checked before the memory is taken, so that a few hostile bytes never cost more than the limit itself.
"""

__all__ = [
    "BATCH_ITEMS",
    "DECOMPRESSED_BYTES",
    "FRAME_BYTES",
    "HEADER_BYTES",
    "HEADER_FIELDS",
    "JSON_DEPTH",
    "JSON_MARKS",
    "KEY_BYTES",
    "PROPERTIES_BYTES",
    "REGISTERED_TOPICS",
    "SETTINGS_LINES",
    "TOPIC_BYTES",
    "TOPIC_BYTES_V1",
    "VALUE_BYTES",
]

FRAME_BYTES = 16 * 1024 * 1024
"""A whole frame. Apache's own limit: a larger frame would be refused by every other peer as well."""

HEADER_BYTES = 64 * 1024
"""A frame's header. Room for a full properties text (32 KiB) beside all other fields in a binary header, and in JSON as
long as fewer than some 5,000 of its characters need an escape; Java's own largest, all quotes, has 65,655 bytes."""

HEADER_FIELDS = 256
"""Fields in one header. The largest request of the protocol has under 40."""

KEY_BYTES = 256
"""The name of one header field; the longest in use has 26 letters."""

VALUE_BYTES = 32 * 1024
"""The value of one header field: the properties of a message, 32,767 bytes, are the longest that is useful."""

JSON_DEPTH = 16
"""Nesting of a JSON body; the deepest in use (a consumer's running state) has 6 levels."""

JSON_MARKS = 2_500_000
"""Brackets, commas and colons of a JSON body, which bound what reading it costs. A full frame of topic settings, the
densest body that means anything, has about 2,000,000."""

SETTINGS_LINES = 65_536
"""Lines of a settings text; a broker has about 500 settings."""

REGISTERED_TOPICS = 131_072
"""Topics in a compressed registration, whose text costs next to nothing to send. No broker manages more."""

DECOMPRESSED_BYTES = 16 * 1024 * 1024
"""What may come out of a compressed body. A sender's body was at most a frame before it was compressed."""

PROPERTIES_BYTES = 32_767
"""A message's properties text: its length is stored in 16 signed bits."""

TOPIC_BYTES_V1 = 127
"""A topic in a version 1 record: its length is stored in 8 signed bits. Longer ones make the record version 2."""

TOPIC_BYTES = 32_767
"""A topic in a version 2 record: its length is stored in 16 signed bits."""

BATCH_ITEMS = 960
"""Messages in one batch that we send: its answer lists an id of 33 bytes for each in one header value."""
