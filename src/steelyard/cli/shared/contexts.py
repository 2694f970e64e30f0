"""Named clusters (contexts): a file of the user with addresses and keys, readable by its owner only.

It is `steelyard/contexts.json` in XDG_CONFIG_HOME or ~/.config, or the file that STEELYARD_CONTEXTS names.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from steelyard.errors import ConfigurationError, file_error

_PATH_VARIABLE = "STEELYARD_CONTEXTS"
_MAX_FILE_BYTES = 1 << 20


class ClusterContext(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cluster: its address, keys and TLS settings."""

    namesrv: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_no_verify: bool = False
    namespace: str = ""


class ClusterContexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All named clusters, and the one that is used by default."""

    clusters: dict[str, ClusterContext] = {}
    chosen: str | None = None


def contexts_path() -> Path:
    """Return the path of the file, which need not exist."""
    named = os.environ.get(_PATH_VARIABLE)
    if named:
        return Path(named)
    settings = os.environ.get("XDG_CONFIG_HOME")
    try:
        return (Path(settings) if settings else Path.home() / ".config") / "steelyard" / "contexts.json"
    except RuntimeError:
        raise ConfigurationError(
            "this user has no home directory to keep clusters in",
            next_step=f"give a file for them with {_PATH_VARIABLE}",
        ) from None


def load_contexts() -> ClusterContexts:
    """Read the file; return an empty value if there is none."""
    try:
        path = contexts_path()
    except ConfigurationError:
        return ClusterContexts()  # without a home directory there is no file
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_FILE_BYTES + 1)
        if len(text) > _MAX_FILE_BYTES:
            raise ConfigurationError(f"{path} has more than {_MAX_FILE_BYTES >> 20} MiB", next_step="give another file")
        return msgspec.json.decode(text, type=ClusterContexts)
    except FileNotFoundError:
        return ClusterContexts()
    except OSError as error:
        raise file_error(f"{path} cannot be read", error, "give another file with STEELYARD_CONTEXTS") from None
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} is not as `steelyard context` writes it: {error}", next_step="repair it, or move it away"
        ) from None


def save_contexts(contexts: ClusterContexts) -> None:
    """Replace the file atomically, with permissions for its owner only."""
    path = contexts_path()
    draft = path.with_suffix(f".{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(contexts)) + b"\n")
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()  # it may have keys in it
        raise file_error(f"{path} cannot be written", error, "give another file with STEELYARD_CONTEXTS") from None


def selected_context(name: str | None = None) -> ClusterContext:
    """Return the named context, or the one used by default; an empty one if there is none.

    NAMESRV_ADDR comes before the default one: it is more specific.
    """
    if name is None and os.environ.get("NAMESRV_ADDR"):
        return ClusterContext()
    contexts = load_contexts()
    wanted = name or contexts.chosen
    if wanted is None:
        return ClusterContext()
    return find_context(contexts, wanted)


def find_context(contexts: ClusterContexts, name: str) -> ClusterContext:
    """Return a context by its name; the error lists those that exist."""
    if name in contexts.clusters:
        return contexts.clusters[name]
    from difflib import get_close_matches

    near = get_close_matches(name, contexts.clusters, 1)
    there = ", ".join(sorted(contexts.clusters)) or "none"
    raise ConfigurationError(
        f"there is no context {name!r}",
        next_step=f"did you mean {near[0]!r}?" if near else f"there are: {there}; `steelyard context add` adds one",
    )
