"""A file holds one idea, so it stays small: at most 700 lines of code.

Blank lines, comments and docstrings are free: nobody should save on explanations to stay under a limit.
"""

import ast
import io
import tokenize

from tests.tidy.tree import Source, complain, texts

_MOST_LINES = 700
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def test_no_file_outgrows_one_idea() -> None:
    # Reading a file token by token takes its time, and most are too short to be too long.
    long = (each for each in texts() if each.path.endswith(".py") and each.text.count("\n") >= _MOST_LINES)
    counted = ((source, code_lines(source)) for source in long)
    complain(
        f"{source.path} has {lines} lines of code, and {_MOST_LINES} is the most: split it by idea, not by length"
        for source, lines in counted
        if lines > _MOST_LINES
    )


def test_only_code_counts() -> None:
    prose = '"""What it is.\n\nAnd why."""\n\n# why\n\ndef go():\n    """Go."""\n'
    code = 'x = [\n    1,\n]\ntext = """\na"""\n'
    assert code_lines(Source("x.py", prose + "    return 1\n" + code)) == 1 + 1 + 3 + 2


def code_lines(source: Source) -> int:
    """Count the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)
