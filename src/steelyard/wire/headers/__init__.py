"""The typed header of every request and answer, declared once each, in files by family.

This is the only place where Java's names for fields appear: most are our names turned to camel case, the rest are
written out beside the field.
"""

from steelyard.wire.headers.table import HEADER_OF_ANSWER, HEADER_OF_REQUEST

__all__ = ["HEADER_OF_ANSWER", "HEADER_OF_REQUEST"]
