"""What GitHub runs is what a person types, on every Python that is promised; `make lint` has zizmor read it."""

import re
import tomllib

from tests.tidy.tree import ROOT

_GITHUB = ROOT / ".github"


def test_every_verb_of_a_workflow_is_one_of_the_makefile() -> None:
    verbs = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    text = "".join(path.read_text(encoding="utf-8") for path in _GITHUB.glob("workflows/*.yml"))
    asked = set(re.findall(r"\bverb: \[?(\w+)|\bmake PYTHON=python (\w+)", text))
    assert asked
    assert {one or other for one, other in asked} <= set(verbs)


def test_the_suite_runs_on_every_python_that_is_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    (matrix,) = re.findall(r"python: \[(.*)\]", (_GITHUB / "workflows/tests.yml").read_text(encoding="utf-8"))
    assert re.findall(r"[\d.]+", matrix) == promised
