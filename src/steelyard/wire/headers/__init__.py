"""The typed header of every request and response, in one file per family.

Only here are Java's names of fields: most are our names in camel case, the others stand beside the field.
"""

from steelyard.wire.headers.table import HEADER_OF_REQUEST

__all__ = ["HEADER_OF_REQUEST"]
