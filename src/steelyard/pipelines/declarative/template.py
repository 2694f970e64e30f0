"""Writing the project that Spark Declarative Pipelines run: ``project/`` beside this file, with names filled in.

The files say themselves what they are about. They are templates of `string.Template`, and every name that is filled in
is quoted as its file wants it: a topic's name may hold what a table's name, Python or YAML must not.
"""

import json
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from steelyard.client.connect import Connect
from steelyard.errors import ConfigurationError
from steelyard.errors.extras import how_to_install

__all__ = ["render", "write_template"]

_SUFFIX = ".template"
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
_INDEX = "-index"


def write_template(directory: Path, *, namesrv: str, topic: str) -> list[Path]:
    """Write the project and return its files; what is there already is never overwritten."""
    root = directory.expanduser().resolve()
    texts = render(root, namesrv=namesrv, topic=topic)
    for name in texts:
        if (root / name).exists():
            raise ConfigurationError(
                f"{root / name} is there already, and is not overwritten", next_step="give another directory"
            )
    try:
        for name, text in texts.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"the pipeline cannot be written to {root} ({error.strerror})", next_step="give another directory"
        ) from error
    return [root / name for name in texts]


def render(root: Path, *, namesrv: str, topic: str) -> dict[str, str]:
    """Return the files of the project by their paths from its root.

    >>> sorted(render(Path("/lake/orders"), namesrv="mq:9876", topic="eu-orders"))
    ['README.md', 'run.py', 'spark-pipeline.yml', 'transformations/messages.py', 'transformations/per_minute.sql']
    """
    if not _TOPIC.fullmatch(topic):
        raise ConfigurationError(f"{topic!r} is no name of a topic", next_step="use up to 127 letters, digits, - and _")
    index = topic + _INDEX
    names = {
        "table": _table(topic),
        "plain_topic": topic,
        "plain_index": index,
        "install": how_to_install("spark,local,pipelines"),
        # JSON is YAML.
        "storage": json.dumps((root / "storage").as_uri()),
        "namesrv": json.dumps(";".join(Connect(namesrv).name_servers)),
        "topic": json.dumps(topic),
        "index": json.dumps(index),
    }
    project = files("steelyard.pipelines.declarative") / "project"
    return {name: Template(text).substitute(names) for name, text in _texts(project, "")}


def _texts(directory: Traversable, front: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _texts(entry, f"{front}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            found.append((f"{front}{entry.name.removesuffix(_SUFFIX)}", entry.read_text(encoding="utf-8")))
    return found


def _table(topic: str) -> str:
    """Return the name of a table for a topic: small letters, digits and lines, and no digit first.

    >>> _table("EU-orders"), _table("7%RETRY")
    ('eu_orders', 't_7_retry')
    """
    name = re.sub(r"[^a-z0-9_]", "_", topic.lower())
    return name if name[0].isalpha() else f"t_{name}"
