"""How much of anything a peer may send, each with its reason. A reader that meets more raises `LimitExceeded`.

A limit is checked before the memory is taken, so that a few hostile bytes never cost more than the limit itself.

What a server is asked has closer limits than what it answers: all of its clients share one loop, and no request may
have more than a tenth of a second of it (tests/broker/worst_requests.py).
"""

__all__ = [
    "BATCH_ITEMS",
    "DECOMPRESSED_BYTES",
    "FRAME_BYTES",
    "HEADER_BYTES",
    "HEADER_FIELDS",
    "HEARTBEAT_BYTES",
    "JSON_DEPTH",
    "JSON_MARKS",
    "KEY_BYTES",
    "LIST_BYTES",
    "LOCKED_QUEUES",
    "LOCK_BYTES",
    "PROPERTIES_BYTES",
    "REGISTERED_PARTS",
    "REGISTRATION_MARKS",
    "REQUEST_BYTES",
    "REQUEST_MENDED_BYTES",
    "REQUEST_TOKENS",
    "SETTINGS_BYTES",
    "TAKEN_ITEMS",
    "TOPIC_BYTES",
    "TOPIC_BYTES_V1",
    "VALUE_BYTES",
    "WRITTEN_HEADER_BYTES",
]

FRAME_BYTES = 16 * 1024 * 1024
"""A whole frame. Apache's own limit: a larger frame would be refused by every other peer as well."""

HEADER_BYTES = 1024 * 1024
"""A frame's header that is read. A full properties text (32 KiB) has 192 KiB in JSON if each character needs an escape.
One that is longer than it may be is read, too, so that its sender gets an answer and the others on the line go on."""

WRITTEN_HEADER_BYTES = 0xFFFFFF
"""A frame's header that is written: its length has 24 bits. The answer to a full batch of tiny messages lists an id for
each, and whoever sends so many reads so many."""

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

REQUEST_TOKENS = 150_000
"""Strings, brackets and numbers as keys in a request that has to be rewritten because it is no standard JSON; one that
is rewritten counts four times. Only a registration with static topics needs it: 5,000 topics have about as many."""

REQUEST_MENDED_BYTES = 256 * 1024
"""A request whose values are not of their types, and are mended one by one: those come from small scripts."""

REQUEST_BYTES = 64 * 1024
"""The body of a request about one thing: a group's settings, a subscription to be checked, an assignment."""

HEARTBEAT_BYTES = 512 * 1024
"""A heartbeat. Java's clients write 130 to 300 bytes for a subscription: room for 600 groups with three of them."""

LOCKED_QUEUES = 16_384
"""Queues in one request for locks: what one member may hold of one broker. In use are some hundred."""

LOCK_BYTES = 4 * 1024 * 1024
"""A request for locks: so many queues of a topic with a long name, and their epochs."""

LIST_BYTES = 1024 * 1024
"""A list of topics, or of groups, to be made at once: about 7,000 topics. Tools send some hundred at a time."""

SETTINGS_BYTES = 256 * 1024
"""A settings text; a broker has about 500 settings, and all of them take 25 kB."""

REGISTRATION_MARKS = 640_000
"""Brackets, commas and colons of a registration: 32,000 topics, of which ours keeps 20,000 at most. Their names may be
long, which costs little, and so it is not the bytes that are counted."""

REGISTERED_PARTS = 16_384
"""Topics, and maps of static topics, in a compressed registration, whose text costs next to nothing to send. Brokers of
before 5.0 send this form if they are told to."""

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

TAKEN_ITEMS = 16_384
"""Messages in one batch that a broker takes: a full batch of 4 MiB, if a message with its properties has 256 bytes. If
there are more, they are better sent as several batches, since the other clients wait for the end of each."""
