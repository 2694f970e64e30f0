"""All scripts in the order they are run: those after which tables of the two servers differ come last."""

from tests.interop.same import admin_scripts, member_scripts, nameserver_scripts, read_scripts, send_scripts
from tests.interop.same.steps import Script

ALL_SCRIPTS: tuple[Script, ...] = (
    *send_scripts.SCRIPTS,
    *read_scripts.SCRIPTS,
    *member_scripts.SCRIPTS,
    *admin_scripts.SCRIPTS,
    *nameserver_scripts.SCRIPTS,
    read_scripts.CLONES,
    admin_scripts.ODD_TOPICS,
    send_scripts.SIDE_EFFECTS,
)
