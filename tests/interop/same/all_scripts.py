"""All scripts in the order they are run: those after which tables of the two servers differ come last."""

from tests.interop.same import members, naming, reading, ruling, sending
from tests.interop.same.steps import Script

__all__ = ["ALL_SCRIPTS"]

ALL_SCRIPTS: tuple[Script, ...] = (
    *sending.SCRIPTS,
    *reading.SCRIPTS,
    *members.SCRIPTS,
    *ruling.SCRIPTS,
    *naming.SCRIPTS,
    reading.CLONES,
    ruling.ODD_TOPICS,
    sending.SIDE_EFFECTS,
)
