"""Clusters by name: a small file of the user's, so that nobody types addresses and keys again and again.

It is `steelyard/contexts.json` where the system keeps settings of programs (XDG_CONFIG_HOME, or ~/.config), or the file
that STEELYARD_CONTEXTS names. Only its owner may read it, since it may have keys in it.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from steelyard.errors import ConfigurationError

__all__ = ["Context", "Contexts", "context_in_use", "contexts_path", "load_contexts", "no_context", "save_contexts"]

_FILE = "STEELYARD_CONTEXTS"
_MOST_BYTES = 1 << 20


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A cluster: where it is, and how to get in."""

    namesrv: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_no_verify: bool = False
    namespace: str = ""


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All clusters that have a name, and which of them counts when nothing is said."""

    clusters: dict[str, Context] = {}
    chosen: str | None = None


def contexts_path() -> Path:
    """Return where the file is, or would be."""
    named = os.environ.get(_FILE)
    if named:
        return Path(named)
    settings = os.environ.get("XDG_CONFIG_HOME")
    try:
        return (Path(settings) if settings else Path.home() / ".config") / "steelyard" / "contexts.json"
    except RuntimeError:
        raise ConfigurationError(
            "this user has no home directory to keep clusters in", next_step=f"name a file for them with {_FILE}"
        ) from None


def load_contexts() -> Contexts:
    """Read the file; nothing if there is none."""
    try:
        path = contexts_path()
    except ConfigurationError:
        return Contexts()  # where there is no place for a file there is none
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise ConfigurationError(f"{path} has more than {_MOST_BYTES >> 20} MiB", next_step="name another file")
        return msgspec.json.decode(text, type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}", next_step="see who owns it") from None
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} is not as `steelyard context` writes it: {error}", next_step="mend it, or move it away"
        ) from None


def save_contexts(contexts: Contexts) -> None:
    """Write the file, for its owner alone; what was there stays until the new one is whole."""
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
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}", next_step="make room for it") from None


def context_in_use(name: str | None = None) -> Context:
    """Return the context that counts: the one that is named, or the chosen one; an empty one if there is none.

    The environment's NAMESRV_ADDR comes before a chosen one: it was said later, and nearer.
    """
    if name is None and os.environ.get("NAMESRV_ADDR"):
        return Context()
    contexts = load_contexts()
    wanted = name or contexts.chosen
    if wanted is None:
        return Context()
    found = contexts.clusters.get(wanted)
    if found is None:
        raise no_context(wanted, contexts)
    return found


def no_context(name: str, contexts: Contexts) -> ConfigurationError:
    """Say that a context is not there, and which are."""
    from difflib import get_close_matches

    near = get_close_matches(name, contexts.clusters, 1)
    there = ", ".join(sorted(contexts.clusters)) or "none"
    return ConfigurationError(
        f"there is no context {name!r}",
        next_step=f"did you mean {near[0]!r}?" if near else f"there are: {there}; `steelyard context add` makes one",
    )
