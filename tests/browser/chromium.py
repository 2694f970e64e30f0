"""`python -m tests.browser.chromium`: look for Chromium, and install Debian's where there is none and we may.

Whatever happens is one line, and never a failure: without a browser its tests are skipped, and say why.
"""

import os
import shutil
import subprocess
import sys

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 300


def find() -> str | None:
    """Return where Chromium is; STEELYARD_CHROMIUM says it, or the path does."""
    return os.environ.get("STEELYARD_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


def _install() -> str:
    """Install Debian's, and say how that went."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return "there is no Chromium here, and it cannot be installed by this user: the tests of the page are skipped"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        for words in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", "chromium")):
            subprocess.run([apt, *words], check=True, timeout=_SECONDS, env=environment, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"Chromium could not be installed ({error}): the tests of the page are skipped"
    return f"installed {find()}"


if __name__ == "__main__":
    found = find()
    sys.stdout.write(f"{f'the browser is {found}' if found else _install()}\n")
