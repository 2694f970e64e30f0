"""Apache's administrator's tool, run inside a Java client process, and its output cut into what a person reads."""

import re

from tests.interop.backends import Cluster
from tests.interop.clients import JavaProcess


class Output:
    """What a command printed."""

    def __init__(self, out: str, err: str) -> None:
        self.out, self.err = out, err

    def __repr__(self) -> str:
        return f"--- out\n{self.out}\n--- err\n{self.err}"

    @property
    def lines(self) -> list[str]:
        """Return the lines that say something."""
        return [line.strip() for line in self.out.splitlines() if line.strip()]

    def rows(self) -> list[list[str]]:
        """Return the words of each line, the heading left out."""
        return [line.split() for line in self.lines if not line.startswith("#")]

    def pairs(self) -> dict[str, str]:
        """Return the lines that name a value, as `name : value` or `name = value`."""
        found = (re.match(r"([\w.\- ]+?)\s*[:=]\s*(.*)$", line) for line in self.lines)
        return {match[1]: match[2].strip() for match in found if match}


class Mqadmin:
    """Runs commands of one release against one cluster."""

    def __init__(self, process: JavaProcess, cluster: Cluster) -> None:
        self.process, self.cluster = process, cluster

    def __call__(self, command: str, *arguments: object) -> Output:
        """Run a command that must go well."""
        output = self.run(command, *arguments)
        assert "Exception: " not in output.err + output.out, f"{command} {arguments}: {output}"
        return output

    def run(self, command: str, *arguments: object) -> Output:
        """Run a command, however it goes."""
        words = [command, "-n", self.cluster.name_server, *map(str, arguments)]
        reported = self.process.ask("mqadmin", arguments=words)
        return Output(reported["out"], reported["err"])
