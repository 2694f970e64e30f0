"""The bodies of the protocol as typed values, one file a family, and the functions that read and write them.

Which body a request or its answer has is told by table.py; maps by number and by queue are in wire/maps.py.
"""

from steelyard.wire.bodies.codec import decode_body, decode_request, encode_body

__all__ = ["decode_body", "decode_request", "encode_body"]
