"""Every recipe of initialization, and the text that names one with its choices."""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args, get_origin, get_type_hints

from armillary.errors import ArgumentError
from armillary.training import initialization, profile
from armillary.training.recipe import LIBRARY, RECIPES, Recipe

__all__ = ["RECIPES", "accepted_recipes", "parse_recipe"]

assert all(name in RECIPES for name in (*initialization.__all__, "overlap_profile", "overlap_sequence")), profile


def parse_recipe(text: str) -> Recipe:
    """The recipe that a text names: "library", or NAME:CHOICE=VALUE,CHOICE=VALUE.

    Args:
        text: As `str(Recipe)` gives it.

    Raises:
        ArgumentError: No such recipe or choice, a value of another kind, or a choice that is missing.
    """
    name, _, given = text.strip().partition(":")
    if name == LIBRARY and not given:
        return Recipe(LIBRARY)
    if name not in RECIPES:
        raise ArgumentError(
            f"Argument `recipe` must be one of {accepted_recipes()}, but it is {text!r}. Name one of them."
        )
    kinds_of, needed = _choices(name)
    choices: dict[str, Any] = {}
    for part in filter(None, given.split(",")):
        key, _, value = part.partition("=")
        if key not in kinds_of:
            raise ArgumentError(
                f"Argument `recipe` must give {name} its own choices ({', '.join(kinds_of) or 'none'}), but {text!r} "
                f"gives {key!r}. Write {_form(name)}."
            )
        if key in choices:
            raise ArgumentError(
                f"Argument `recipe` must give each choice once, but {text!r} gives {key} twice. Leave one out."
            )
        choices[key] = _read(kinds_of[key], value, name)
    missing = [key for key in needed if key not in choices]
    if missing:
        raise ArgumentError(
            f"Argument `recipe` must give {name} every choice, but {text!r} leaves out {', '.join(missing)}. Write "
            f"{_form(name)}."
        )
    return Recipe(name, tuple(choices.items()))


def accepted_recipes() -> str:
    """Every recipe as it is written, in words."""
    return ", ".join([LIBRARY, *(_form(name) for name in sorted(RECIPES))])


def _choices(name: str) -> tuple[dict[str, Any], list[str]]:
    function = inspect.unwrap(RECIPES[name])
    hints = get_type_hints(function)
    own = {
        key: one
        for key, one in inspect.signature(function).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY and key not in ("seed", "ids")
    }
    needed = [key for key, one in own.items() if one.default is inspect.Parameter.empty]
    return {key: hints[key] for key in own}, needed


def _form(name: str) -> str:
    found, _ = _choices(name)
    words = (
        "|".join(get_args(kind)) if origin is Literal else "NUMBER/NUMBER/..." if origin is tuple else "NUMBER"
        for kind in found.values()
        for origin in (get_origin(kind),)
    )
    given = ",".join(f"{key}={word}" for key, word in zip(found, words, strict=True))
    return name + (f":{given}" if given else "")


def _read(kind: Any, text: str, name: str) -> Any:
    try:
        if get_origin(kind) is Literal:
            if text not in get_args(kind):
                raise ValueError(text)
            return text
        if get_origin(kind) is tuple:
            return tuple(float(one) for one in text.split("/"))
        return kind(text)
    except ValueError:
        raise ArgumentError(
            f"Argument `recipe` must be written {_form(name)}, but a value is {text!r}. Correct it."
        ) from None
