"""The text that names a penalty with its choices and a strength, as the command line and study files have it."""

from __future__ import annotations

import inspect
import re

from armillary.errors import ArgumentError
from armillary.training.penalties import PENALTIES
from armillary.training.penalty import Penalty

__all__ = ["accepted_penalties", "parse_penalty", "parse_term"]

FLAGS = "[,centered][,without_first]"
"""What may follow the choices of any penalty."""

LEFT_OUT = ("target_overlap",)
"""Penalties whose choices are no plain numbers."""


def accepted_penalties() -> str:
    """Every penalty as it is written, in words."""
    return ", ".join(f"{_form(name)}{FLAGS}" for name in sorted(PENALTIES) if name not in LEFT_OUT)


def parse_penalty(text: str) -> Penalty:
    """The penalty of a text, "uniformity:beta=4" say; "centered" as a choice centers the rows first.

    Args:
        text: NAME, or NAME:CHOICE=NUMBER,CHOICE=NUMBER; ",centered" and ",without_first" may follow.

    Raises:
        ArgumentError: No such penalty or choice, or one that is missing or no number.
    """
    name, given = re.fullmatch(r"\s*([^:,]*)[:,]?(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if name not in PENALTIES or name in LEFT_OUT:
        raise ArgumentError(
            f"Argument `penalty` must be one of {accepted_penalties()}, but it is {text!r}. Name one of them."
        )
    words = [part for part in given.split(",") if part]
    flags = [word for word in words if word in ("centered", "without_first")]
    pairs = [word.partition("=") for word in words if word not in flags]
    keys = [key for key, *_ in pairs]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ArgumentError(
            f"Argument `penalty` must give each choice once, but {text!r} gives {twice} twice. Leave one out."
        )
    try:
        made = PENALTIES[name](**{key: float(value) for key, _, value in pairs})
    except (TypeError, ValueError) as trouble:
        if isinstance(trouble, ArgumentError):
            said = str(trouble).removeprefix("Argument ")
            raise ArgumentError(f"Argument `penalty` must hold choices in range, but in {text!r} {said}") from trouble
        raise ArgumentError(
            f"Argument `penalty` must be written {_form(name)}, but it is {text!r}. Give each choice a number."
        ) from None
    made = made.after("center", "normalize") if "centered" in flags else made
    return made.of_tokens("without_first") if "without_first" in flags else made


def parse_term(text: str) -> tuple[Penalty, float]:
    """A penalty and its strength: "uniformity:beta=4@0.1".

    Args:
        text: PENALTY@STRENGTH.

    Raises:
        ArgumentError: It is not of that form, or the strength is not positive.
    """
    penalty, at, strength = text.rpartition("@")
    try:
        value = float(strength)
    except ValueError:
        at = ""
    if not at or not 0 < value < float("inf"):
        raise ArgumentError(
            f"Argument `term` must be PENALTY@STRENGTH with a positive strength, but it is {text!r}. Write "
            "uniformity:beta=4@0.1; the loss alone is always there too."
        )
    return parse_penalty(penalty), value


def _form(name: str) -> str:
    choices = inspect.signature(PENALTIES[name]).parameters
    given = ",".join(f"{key}=NUMBER" for key in choices)
    return name + (f":{given}" if given else "")
