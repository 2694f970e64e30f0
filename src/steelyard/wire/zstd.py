"""Zstandard of the standard library since Python 3.14, or its backport of the extra ``fast`` before that."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
