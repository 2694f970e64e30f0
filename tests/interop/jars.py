"""Apache's published jars, and our little Java programs compiled against them: one class path for each release.

`python -m tests.interop.jars` fetches and compiles what is missing and says what it does; tests only look it up. All of
it lies in the virtual environment, so that `make clean` takes it away and the source tree stays as it is.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from tests.interop.prepared import DONE, NotReady, digest, home, run_tool

__all__ = [
    "RELEASES",
    "RELEASE_4",
    "RELEASE_5",
    "SERVER_RELEASES",
    "NotReady",
    "class_path",
    "client_class_path",
    "integration_class_path",
    "server_class_path",
]

RELEASES = RELEASE_4, RELEASE_5 = "4.9.8", "5.5.0"
"""The last of 4.9, and the newest of 5.x whose client is published whole."""

SERVER_RELEASES = "4.9.7", "5.5.0"
"""Those whose servers open and write directories of the store."""

_JAVA_SOURCES = Path(__file__).parent / "java"
_PEER = _JAVA_SOURCES / "peer"
_CLIENT = _JAVA_SOURCES / "client"
_INTEGRATION = _JAVA_SOURCES / "integration"
_POMS = {
    _PEER: _JAVA_SOURCES / "pom.xml",
    _CLIENT: _CLIENT / "pom.xml",
    _INTEGRATION: _INTEGRATION / "pom.xml",
}
_INTEGRATION_RELEASE = SERVER_RELEASES[0]
"""Those of 5.x are about POP and proxies as well."""
_SERVERS = _JAVA_SOURCES / "servers" / "pom.xml"
_OLDEST_JAVA = 17


def class_path(release: str) -> str:
    """Return the class path of a release's codecs, `peer`; raise NotReady if it was not prepared."""
    return _path_of_program(release, _PEER)


def client_class_path(release: str) -> str:
    """Return the class path of a release's clients and tools, `client`; raise NotReady if it was not prepared."""
    return _path_of_program(release, _CLIENT)


def integration_class_path() -> str:
    """Return the class path of Apache's integration tests, `integration`; raise NotReady if it was not prepared."""
    return _path_of_program(_INTEGRATION_RELEASE, _INTEGRATION)


def _path_of_program(release: str, program: Path) -> str:
    jars, classes = _jars(release, _POMS[program]), _classes(release, program)
    if not (jars / DONE).exists() or not (classes / DONE).exists():
        raise NotReady(f"the Java side for {release} is not prepared: run make interop")
    return os.pathsep.join((str(classes), str(jars / "*")))


def server_class_path(release: str) -> str:
    """Return the class path of a release's servers; raise NotReady if it was not prepared."""
    jars = _jars(release, _SERVERS)
    if not (jars / DONE).exists():
        raise NotReady(f"Apache's servers of {release} are not prepared: run make interop")
    return str(jars / "*")


def prepare() -> None:
    """Fetch and compile what is missing."""
    _check_java()
    wanted = [(release, program) for release in RELEASES for program in (_PEER, _CLIENT)]
    for release, program in (*wanted, (_INTEGRATION_RELEASE, _INTEGRATION)):
        _fetch(release, _POMS[program])
        _compile(release, program)
    for release in SERVER_RELEASES:
        _fetch(release, _SERVERS)


def _check_java() -> None:
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        raise NotReady(
            f"make interop needs a JDK {_OLDEST_JAVA} and Maven, and there is no {' and no '.join(missing)} "
            "on the PATH: install them and run it again"
        )
    version = run_tool("javac", ["-version"], "javac cannot even say its version").strip()
    found = re.search(r"javac (\d+)", version)
    if found is None or int(found[1]) < _OLDEST_JAVA:
        raise NotReady(f"make interop needs a JDK {_OLDEST_JAVA} or newer, and here is {version!r}: install one")


def _jars(release: str, pom: Path) -> Path:
    # Named after what is asked for: another pom is another folder.
    return home() / f"jars-{release}-{digest(pom)}"


def _classes(release: str, program: Path) -> Path:
    return home() / f"classes-{release}-{digest(*_sources(program))}"


def _sources(program: Path) -> list[Path]:
    return sorted(program.glob("*.java"))


def _fetch(release: str, pom: Path) -> None:
    folder = _jars(release, pom)
    if (folder / DONE).exists():
        return
    what = {
        _POMS[_PEER]: "codecs",
        _POMS[_CLIENT]: "clients and tools",
        _POMS[_INTEGRATION]: "integration tests",
        _SERVERS: "servers",
    }[pom]
    print(f"fetching Apache RocketMQ's {what} {release} with Maven", flush=True)
    asked = ["-f", str(pom), f"-Drelease={release}", f"-DoutputDirectory={folder}"]
    run_tool(
        "mvn", ["--batch-mode", "--quiet", "dependency:copy-dependencies", *asked], f"Maven cannot fetch {release}"
    )
    (folder / DONE).touch()


def _compile(release: str, program: Path) -> None:
    folder = _classes(release, program)
    if (folder / DONE).exists():
        return
    print(f"compiling our Java program {program.name!r} against {release}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    settings = ["-Xlint:all,-classfile,-processing", "-Werror", "--release", str(_OLDEST_JAVA)]
    places = ["-cp", str(_jars(release, _POMS[program]) / "*"), "-d", str(folder)]
    run_tool("javac", [*settings, *places, *map(str, _sources(program))], f"javac cannot compile against {release}")
    (folder / DONE).touch()


if __name__ == "__main__":
    try:
        prepare()
    except NotReady as problem:
        sys.exit(str(problem))
