"""Zstandard as the standard library has it since Python 3.14, or its backport from the extra ``fast`` before that."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
