"""Parameters of a command, declared by the annotations of its function: ``Annotated[str | None, option(help="…")]``.

The type gives the values that are accepted, the default whether it is required, and its name that of the option. A
parameter whose type is a dataclass stands for the options that the fields declare, so that commands can share them;
its ``PANEL`` is the heading that the help lists them under.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, TypedDict, Unpack, get_args, get_origin

import click

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
"""Completes the beginning of a word, given what is typed before it."""

_PANEL = "Options"


class _Settings(TypedDict, total=False):
    help: str
    metavar: str
    min: float
    max: float
    show_default: str | bool
    """In words if it is no value; shown unless it is nothing."""
    envvar: str
    panel: str
    """The heading that the help lists it under."""
    complete: Completer


class _Declaration(NamedTuple):
    names: tuple[str, ...]
    settings: _Settings
    is_argument: bool = False


def option(*names: str, **settings: Unpack[_Settings]) -> _Declaration:
    """Declare an option; its long name is that of the parameter unless another one is given."""
    return _Declaration(names, settings)


def argument(**settings: Unpack[_Settings]) -> _Declaration:
    """Declare an argument."""
    return _Declaration((), settings, is_argument=True)


class PanelOption(click.Option):
    """An option that the help lists under a heading."""

    def __init__(self, names: Iterable[str], panel: str, **attributes: Any) -> None:
        super().__init__(list(names), **attributes)
        self.panel = panel


class DescribedArgument(click.Argument):
    """An argument that the help describes."""

    def __init__(self, name: str, description: str, show_default: str, **attributes: Any) -> None:
        super().__init__([name], **attributes)
        self.description, self.show_default = description, show_default

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return how it is written, and what it is."""
        del ctx
        default = f"  [default: ({self.show_default})]" if self.show_default else ""
        return self.metavar or "", self.description + default


class Provider(NamedTuple):
    """How a command gets an object that it names as a parameter: made of options, of which it has a dataclass."""

    options: Any
    make: Callable[[Any], object]


class Binding(NamedTuple):
    """A parameter of a function: click's parameters for it, and how its value is made of theirs."""

    parameters: tuple[click.Parameter, ...]
    make: Callable[[Mapping[str, Any]], Any]


def bind(function: Callable[..., Any], providers: Mapping[str, Provider]) -> dict[str, Binding]:
    """Return the parameters of a function by name."""
    found = {}
    for each in inspect.signature(function).parameters.values():
        kind: Any = each.annotation
        # An annotation is a class, or a name in quotes where importing the class would be slow.
        provider = providers.get(getattr(kind, "__name__", kind))
        if provider is not None:
            options = _bind_fields(provider.options)
            found[each.name] = Binding(options.parameters, _compose(provider.make, options.make))
        else:
            found[each.name] = _bind_fields(kind) if is_dataclass(each.annotation) else _bind_value(each)
    return found


def _compose(make: Callable[[Any], object], make_options: Callable[[Mapping[str, Any]], Any]) -> Callable[..., Any]:
    return lambda given: make(make_options(given))


@cache
def _bind_fields(kind: Any) -> Binding:
    """Return the options of a dataclass; commands share them."""
    panel = getattr(kind, "PANEL", _PANEL)
    bound = {each.name: _bind_value(each, panel) for each in inspect.signature(kind).parameters.values()}
    parameters = tuple(parameter for each in bound.values() for parameter in each.parameters)
    return Binding(parameters, lambda given: kind(**{name: each.make(given) for name, each in bound.items()}))


def _bind_value(parameter: inspect.Parameter, panel: str = _PANEL) -> Binding:
    declared, declaration = get_args(parameter.annotation)[:2]
    kind, is_list = _value_kind(declared)
    settings: _Settings = declaration.settings
    is_required = parameter.default is inspect.Parameter.empty
    default = None if is_required else parameter.default
    attributes: dict[str, Any] = {
        "required": is_required,
        "metavar": settings.get("metavar", _METAVARS.get(kind)),
        "shell_complete": settings.get("complete"),
    }
    if not is_required and not is_list:
        attributes["default"] = str(default) if isinstance(default, StrEnum | Path) else default
    attributes |= {"is_flag": True} if kind is bool else {"type": _click_type(kind, settings)}
    name = parameter.name
    made: click.Parameter
    if declaration.is_argument:
        default_text = str(settings.get("show_default", ""))
        made = DescribedArgument(name, settings["help"], default_text, nargs=-1 if is_list else 1, **attributes)
    else:
        is_named = any(each.startswith("--") for each in declaration.names)
        names = declaration.names if is_named else (*declaration.names, f"--{name.replace('_', '-')}")
        is_shown = default is not None and default is not False and default != ""
        made = PanelOption(
            (*names, name),
            settings.get("panel", panel),
            help=settings.get("help"),
            multiple=is_list,
            show_default=settings.get("show_default", is_shown),
            envvar=settings.get("envvar"),
            show_envvar=True,
            **attributes,
        )
    if is_list:
        return Binding((made,), lambda given: list(given[name]) if given[name] or is_required else default)
    if issubclass(kind, StrEnum):
        return Binding((made,), lambda given: None if given[name] is None else kind(given[name]))
    return Binding((made,), lambda given: given[name])


def _value_kind(declared: Any) -> tuple[type[Any], bool]:
    """Return the type of one value, and whether there may be several.

    >>> _value_kind(list[str] | None), _value_kind(int)
    ((<class 'str'>, True), (<class 'int'>, False))
    """
    several = [each for each in get_args(declared) if each is not NoneType]
    if get_origin(declared) is list:
        return several[0], True
    return _value_kind(several[0]) if several else (declared, False)


_CLICK_TYPES: dict[type[Any], Any] = {
    str: click.STRING,
    int: click.INT,
    float: click.FLOAT,
    bool: click.BOOL,
    Path: click.Path(path_type=Path),
}
_METAVARS = {str: "TEXT", int: "N", float: "N", Path: "PATH"}


def _click_type(kind: type[Any], settings: _Settings) -> Any:
    if issubclass(kind, StrEnum):
        return click.Choice([each.value for each in kind])
    low, high = settings.get("min"), settings.get("max")
    if low is None and high is None:
        return _CLICK_TYPES[kind]
    if kind is float:
        return click.FloatRange(low, high)
    return click.IntRange(None if low is None else int(low), None if high is None else int(high))
