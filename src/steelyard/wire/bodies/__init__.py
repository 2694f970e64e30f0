"""JSON bodies as typed values, in one file per family, and the functions that decode and encode them.

Maps by number and by queue are in wire/json_body.py.
"""

from steelyard.wire.json_body import decode_body, decode_request_body, encode_body

__all__ = ["decode_body", "decode_request_body", "encode_body"]
