"""Limits of what a peer may send, each with its reason; beyond them decoders raise `LimitExceeded`.

A limit is checked before memory is allocated, so a few hostile bytes never cost more than the limit itself. Requests
have closer limits than responses: all clients of a server share one event loop, and no request may take more than a
tenth of a second of it (tests/broker/worst_requests.py). How many queues, offsets and pulls one request may concern is
limited where it is handled (broker/requests/, broker/long_polling.py).
"""

FRAME_BYTES = 16 * 1024 * 1024
"""A whole frame. Apache's own limit: every other peer would refuse a larger one, too."""

HEADER_BYTES = 1024 * 1024
"""The header of a frame that is decoded. A full properties text (32 KiB) has 192 KiB in JSON if each character needs an
escape. Longer properties are decoded, too, so that their sender gets a response and the connection goes on."""

WRITTEN_HEADER_BYTES = 0xFFFFFF
"""The header of a frame that is encoded: its length has 24 bits. The response to a full batch of tiny messages lists an
id for each."""

HEADER_FIELDS = 256
"""Fields in one header. The largest request of the protocol has under 40."""

KEY_BYTES = 256
"""The name of one header field; the longest in use has 26 characters."""

VALUE_BYTES = 32 * 1024
"""The value of one header field: the longest is the properties of a message, 32,767 bytes."""

JSON_DEPTH = 16
"""Nesting of a JSON body; the deepest in use (a consumer's running state) has 6 levels."""

JSON_MARKS = 2_500_000
"""Brackets, commas and colons of a JSON body, which bound the cost of decoding it. A full frame of topic configs, the
densest body that makes sense, has about 2,000,000."""

REQUEST_TOKENS = 150_000
"""Strings, brackets and numbers as keys of a request that is not standard JSON and must be rewritten; a rewritten one
counts four times. Only a registration with static topics needs it: 5,000 topics have about as many."""

REQUEST_REPAIRED_BYTES = 256 * 1024
"""A request whose values have wrong types and are repaired one by one: those come from small scripts."""

REQUEST_BYTES = 64 * 1024
"""The body of a small request: a group's config, a subscription to check, an assignment."""

HEARTBEAT_BYTES = 512 * 1024
"""A heartbeat. Java's clients write 130 to 300 bytes for a subscription: room for 600 groups with three of them."""

LOCKED_QUEUES = 16_384
"""Queues in one lock request: what one member may hold of one broker. Some hundred are usual."""

LOCK_BYTES = 4 * 1024 * 1024
"""A lock request: that many queues of a topic with a long name, and their epochs."""

LIST_BYTES = 1024 * 1024
"""A list of topics or groups to create at once: about 7,000 topics. Tools send some hundred at a time."""

SETTINGS_BYTES = 256 * 1024
"""A settings text; the about 500 settings of a broker take 25 kB."""

REGISTRATION_MARKS = 640_000
"""Brackets, commas and colons of a registration: 32,000 topics, of which ours keeps 20,000 at most. Bytes do not count,
since long names cost little."""

REGISTERED_PARTS = 16_384
"""Topics, and mappings of static topics, in a compressed registration, which costs next to nothing to send. Brokers
before 5.0 send this form if they are configured to."""

DECOMPRESSED_BYTES = 16 * 1024 * 1024
"""A decompressed body. It was at most a frame before it was compressed."""

PROPERTIES_BYTES = 32_767
"""A message's properties text: its length is stored in 16 signed bits."""

ERROR_BYTES = 1_000
"""Why a message was not handled, as a property: a sentence, which must leave room for the message's own properties."""

TOPIC_BYTES_V1 = 127
"""A topic in a version 1 record: its length is stored in 8 signed bits. Longer ones make the record version 2."""

TOPIC_BYTES = 32_767
"""A topic in a version 2 record: its length is stored in 16 signed bits."""

BATCH_ITEMS = 960
"""Messages in one batch that we send: its answer lists an id of 33 bytes for each in one header value."""

BROKER_BATCH_ITEMS = 16_384
"""Messages in one batch that a broker takes: a full batch of 4 MiB, if a message with its properties has 256 bytes. If
there are more, they are better sent as several batches, since the other clients wait for the end of each."""
