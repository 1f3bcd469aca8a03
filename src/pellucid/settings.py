"""Settings from text: checked keys, checked types, errors that name the near and the valid."""

import dataclasses
import inspect
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin, get_type_hints

_MOST = 3.4e38  # what fp32 holds


class RecipeError(ValueError):
    """A key or value of a recipe that cannot be; the message names it and what would be right."""


def unknown(what: str, name: str, valid: Iterable[str]) -> RecipeError:
    """The error for a name that is none of the valid ones, with the near ones first."""
    valid = list(valid)
    near = get_close_matches(name, valid, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return RecipeError(f"unknown {what} {name!r}.{hint} Valid: {', '.join(valid) or 'none'}.")


def parse_value(text: str) -> Any:
    """A value as TOML reads it (3e-5, true, [0.3, 1.0], "text"); plain words are strings."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def coerce(value: Any, kind: Any, key: str) -> Any:
    """The value as its annotated type.

    Raises:
        RecipeError: it has another type, or is none of the choices.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        if value not in arguments:
            raise unknown(f"value of {key}", str(value), map(str, arguments))
        return value
    if origin is types.UnionType:
        if value is None or (value == "none" and type(None) in arguments):
            return None
        return coerce(value, next(a for a in arguments if a is not type(None)), key)
    if origin is tuple:
        if not isinstance(value, list | tuple) or len(value) != len(arguments):
            raise RecipeError(f"{key} takes {len(arguments)} values like [0.1, 2.0], got {value!r}")
        return tuple(coerce(v, a, key) for v, a in zip(value, arguments, strict=True))
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not -_MOST <= value <= _MOST:  # so too for NaN
            raise RecipeError(f"{key} takes a finite number, got {value!r}")
        return float(value)
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        words = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}
        raise RecipeError(f"{key} takes {words[kind]}, got {value!r}")
    if kind is int and not -(2**63) <= value < 2**63:  # else recipe.json could not be read again
        raise RecipeError(f"{key} takes a whole number of 64 bits, got {value!r}")
    return value


def fields_of(piece: Any) -> dict[str, tuple[Any, Any]]:
    """Name -> (type, default) of a settings dataclass, or of a builder's keyword arguments."""
    hints = get_type_hints(piece)
    if dataclasses.is_dataclass(piece):
        return {f.name: (hints[f.name], f.default) for f in dataclasses.fields(piece)}
    return {
        p.name: (hints[p.name], p.default)
        for p in inspect.signature(piece).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }


def checked(values: Mapping[str, Any], piece: Any, where: str) -> dict[str, Any]:
    """All settings of a piece, defaults filled in.

    Raises:
        RecipeError: an unknown key, or a value of the wrong type.
    """
    fields = fields_of(piece)
    for key in values:
        if key not in fields:
            raise unknown("key", f"{where}.{key}", [f"{where}.{name}" for name in fields])
    return {
        name: coerce(values.get(name, default), kind, f"{where}.{name}")
        for name, (kind, default) in fields.items()
    }


@dataclasses.dataclass(frozen=True)
class Choice:
    """One entry of a table of builders, by name, with all its settings."""

    name: str
    settings: Mapping[str, Any]

    @classmethod
    def of(
        cls, values: Mapping[str, Any], table: Mapping[str, Callable[..., Any]], where: str
    ) -> "Choice":
        """Check a recipe's section against the table that it chooses from."""
        name = str(values.get("name", ""))
        if name not in table:
            raise unknown(f"{where}.name", name, table)
        settings = {key: value for key, value in values.items() if key != "name"}
        return cls(name, checked(settings, table[name], where))

    def build(self, table: Mapping[str, Callable[..., Any]], *parts: Any) -> Any:
        """Call the builder of this name."""
        return table[self.name](*parts, **self.settings)
