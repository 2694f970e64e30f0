"""The ways to compress that are installed here: lz4 has no wheel for musl, so the group `test` does without it."""

from importlib.util import find_spec

import pytest

from steelyard.wire.sysflag import Compression

HAS_LZ4 = find_spec("lz4") is not None
needs_lz4 = pytest.mark.skipif(not HAS_LZ4, reason="needs the extra lz4, which `make test` installs")
_MARKS = {Compression.LZ4: needs_lz4}

INSTALLED = [kind for kind in Compression if HAS_LZ4 or kind is not Compression.LZ4]
EACH = [pytest.param(kind, marks=_MARKS.get(kind, ())) for kind in Compression]
EACH_NAME = [pytest.param(kind.name.lower(), marks=_MARKS.get(kind, ())) for kind in Compression]
