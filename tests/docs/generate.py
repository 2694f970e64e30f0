"""`python -m tests.docs.generate` writes the pages and pictures anew that are made from the code.

A test compares each of them with what the code says now (test_generated.py), so none can fall behind.
"""

from collections.abc import Callable
from functools import partial

from tests.docs.generated.api_page import api_page
from tests.docs.generated.cli_page import cli_index, cli_page
from tests.docs.generated.errors_page import errors_page, exits_page
from tests.docs.generated.figures import with_figures
from tests.docs.generated.grafana_dashboard import dashboard
from tests.docs.generated.metrics_page import metrics_page
from tests.docs.generated.options_page import options_page
from tests.docs.generated.pictures import PICTURES
from tests.tidy.tree import ROOT

GENERATED: dict[str, Callable[[], str]] = {
    "docs/reference/api.md": api_page,
    "docs/reference/cli.md": cli_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/options.md": options_page,
    "docs/reference/errors.md": errors_page,
    "docs/reference/exit-codes.md": exits_page,
    "docs/cli/index.md": cli_index,
    "deploy/grafana/steelyard.json": dashboard,
    **{page: partial(with_figures, page) for page in ("README.md", "docs/comparison.md")},
    **{f"docs/pictures/{name}.svg": draw for name, draw in PICTURES.items()},
}
"""What is written where."""

BUILT = frozenset({"docs/reference/api.md", "docs/reference/cli.md"})
"""What `make docs` writes and nobody commits: long, and of use on the site alone."""

ASKING_SPARK = frozenset({"docs/reference/api.md"})
"""What can be written only where Spark's packages are."""


def generate() -> None:
    """Write those that the code has left behind."""
    for path, write in GENERATED.items():
        file, wanted = ROOT / path, write()
        if not file.is_file() or file.read_text(encoding="utf-8") != wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    generate()
