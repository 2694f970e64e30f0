"""No rule of ruff, mypy or the suite is switched off anywhere: a rule that needs an exception is not a rule.

The marks are spelled with a bracket in the patterns, so that this file does not meet its own rule.
"""

import re
from collections.abc import Iterator

from tests.tidy.tree import Source, complain, lines_with, texts

_SWITCHED_OFF = {
    r"#\s*type:\s*[i]gnore": "say the type so that mypy can follow",
    r"#\s*[n]oqa": "change the code, or drop the rule in pyproject.toml for everyone",
    r"#\s*ruff:\s*[n]oqa": "change the code, or drop the rule in pyproject.toml for everyone",
    r"#\s*mypy:\s*[a-z_]+": "set it in pyproject.toml for everyone",
    r"#\s*pragma:\s*[n]o cover": "test it, or remove it",
    r"#\s*fmt:\s*(?:[o]ff|[s]kip)": "let ruff format it",
    r"^\s*(?:extend-)?[i]gnore\s*=": "take the rule out of what is selected, for everyone",
    r"[d]isable_error_code|[i]gnore_missing_imports|[i]gnore_errors": "say the types, in typings/ for what has none",
    r"@(?:typing\.)?[n]o_type_check": "say the type so that mypy can follow",
    r"per-file-[i]gnores|tool\.mypy\.[o]verrides": "one rule for all files",
    r"pytest\.mark\.(?:[s]kip\b|[x]fail)": "mend what it tests, or remove it",
}


def test_no_rule_is_switched_off() -> None:
    complain(
        line
        for source in texts()
        if source.path.endswith((".py", ".pyi", ".toml", ".cfg", ".ini"))
        for line in switched_off(source)
    )


def test_a_switch_is_seen() -> None:
    for parts in (
        ("x = 1  # type:", " ignore"),
        ("x = 1  # no", "qa: E501"),
        ("[tool.ruff.lint.per-file", "-ignores]"),
        ("ign", 'ore = ["E501"]'),
        ("ignore_missing", "_imports = true"),
        ("@no_type", "_check"),
    ):
        assert list(switched_off(Source("x.py", "".join(parts))))
    assert not list(switched_off(Source("x.py", "# why the type is what it is")))


def switched_off(source: Source) -> Iterator[str]:
    """Say where a file switches a rule off."""
    for pattern, advice in _SWITCHED_OFF.items():
        for number, found in lines_with(source, re.compile(pattern, re.MULTILINE)):
            yield f"{source.path}:{number} switches a rule off with {found[0]!r}: {advice}"
