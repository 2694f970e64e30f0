"""Writes a project for Spark Declarative Pipelines: ``declarative_project/`` beside this file, with names filled in.

The files are templates of `string.Template`, and every name is quoted as its file needs it: the name of a topic may
have characters that the name of a table, Python or YAML must not.
"""

import json
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from steelyard.client.config import ClientConfig
from steelyard.errors import ConfigurationError, file_error, how_to_install

_SUFFIX = ".template"
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
_INDEX = "-index"


def write_project(directory: Path, *, namesrv: str, topic: str) -> list[Path]:
    """Write the project and return its files; existing files are never overwritten."""
    root = directory.expanduser().resolve()
    texts = render_project(root, namesrv=namesrv, topic=topic)
    for name in texts:
        if (root / name).exists():
            raise ConfigurationError(
                f"{root / name} exists, and is not overwritten", next_step="give another directory"
            )
    try:
        for name, text in texts.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise file_error(f"the pipeline cannot be written to {root}", error, "give another directory") from error
    return [root / name for name in texts]


def render_project(root: Path, *, namesrv: str, topic: str) -> dict[str, str]:
    """Return the files of the project by relative path.

    >>> sorted(render_project(Path("/lake/orders"), namesrv="mq:9876", topic="eu-orders"))
    ['README.md', 'run.py', 'spark-pipeline.yml', 'transformations/messages.py', 'transformations/per_minute.sql']
    """
    if not _TOPIC.fullmatch(topic):
        raise ConfigurationError(f"{topic!r} is not a topic name", next_step="use up to 127 letters, digits, - and _")
    index = topic + _INDEX
    names = {
        "table": _table_name(topic),
        "plain_topic": topic,
        "plain_index": index,
        "install": how_to_install("spark,local,pipelines"),
        # JSON is valid YAML.
        "storage": json.dumps((root / "storage").as_uri()),
        "namesrv": json.dumps(";".join(ClientConfig(namesrv).name_servers)),
        "topic": json.dumps(topic),
        "index": json.dumps(index),
    }
    project = files("steelyard.pipelines") / "declarative_project"
    return {name: Template(text).substitute(names) for name, text in _template_files(project, "")}


def _template_files(directory: Traversable, front: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _template_files(entry, f"{front}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            found.append((f"{front}{entry.name.removesuffix(_SUFFIX)}", entry.read_text(encoding="utf-8")))
    return found


def _table_name(topic: str) -> str:
    """Return a table name for a topic: lower-case letters, digits and underscores, and a letter first.

    >>> _table_name("EU-orders"), _table_name("7%RETRY")
    ('eu_orders', 't_7_retry')
    """
    name = re.sub(r"[^a-z0-9_]", "_", topic.lower())
    return name if name[0].isalpha() else f"t_{name}"
