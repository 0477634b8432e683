"""What somebody at the command line reads when something is refused: one sentence, in the command line's own words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import typer

__all__ = ["is_out_of_memory", "memory_words", "parser_words", "refuse", "with_options"]

_OPTIONS = {
    "preset": "--preset",
    "study": "--study",
    "rule": "--rule",
    "mask": "--mask",
    "heads": "--heads",
    "norm": "--norm",
    "start": "--start",
    "source": "--model",
    "documents": "--documents",
    "genre": "--genre",
    "separator": "--separator",
    "text_column": "--text-column",
    "id_column": "--id-column",
    "cut": "--cut",
    "changes": "--set",
    "threshold": "--threshold",
    "recipe": "--recipe",
    "recipes": "--recipe",
    "penalty": "--term",
    "term": "--term",
    "terms": "--term",
    "rates": "--rate",
    "seeds": "--seeds",
    "checkpoints": "--checkpoints",
    "architecture": "--architecture",
    "width": "--width",
    "blocks": "--blocks",
    "held_out": "--held-out",
    "when_not_finite": "--when-not-finite",
    "steps": "--steps",
    "every": "--every",
    "texts": "--texts",
    "joined_by": "--cut",
    "tokens": "--max-tokens",
    "condition": "--conditions",
    "conditions": "--conditions",
    "device": "--device",
    "dtype": "--dtype",
    "memory_limit": "--memory-limit",
    "backend": "--backend",
    "workers": "--workers",
    "address": "--address",
    "threads": "--threads",
    "batch_size": "--batch-size",
    "seed": "--seed",
    "condition_number": "--condition-number",
    "given": "--transformations",
    "transformations": "--transformations",
    "gauges": "--gauges",
    "untie": "--untie",
    "level": "--level",
    "revision": "--revision",
    "tokenizer": "--tokenizer",
    "states": "--states",
    "axes": "--axes",
    "array": "--states-array",
    "layers": "--layers",
    "allow_pickle": "--allow-pickle",
    "trust_remote_code": "--trust-remote-code",
}
"""What the arguments of the library are called on the command line; `path` depends on the command."""

WRITING = ("lab", "simulate", "phase", "resist", "diagnose", "train", "audit")
"""Commands whose `path` is where a record goes."""


def refuse(sentence: str, code: int) -> int:
    """Print one line on standard error.

    Args:
        sentence: What was expected, what came, what to do.
        code: The exit code.

    Returns:
        The code.
    """
    shown = sentence.encode("utf-8", "backslashreplace").decode("utf-8")  # a file name may hold any bytes
    typer.echo("armillary: " + " ".join(shown.split()), err=True)
    return code


def with_options(sentence: str, arguments: Sequence[str]) -> str:
    """The sentence with the library's arguments called as they are on the command line."""
    names = _OPTIONS | {"path": "--out" if arguments[0] in WRITING else "RECORD"}
    return re.sub(r"`(\w+)(=True)?`", lambda found: f"`{names.get(found[1], found[0][1:-1])}`", sentence)


def parser_words(sentence: str, arguments: Sequence[str]) -> str:
    """The parser's sentence with what was given, which it leaves out, and where to look."""
    said = " ".join(sentence.split()).rstrip(".").replace("Value error, ", "")
    option = re.match(r"Invalid value for '(--[\w-]+)'", said)
    spread = [part for text in arguments for part in (text.split("=", 1) if text.startswith("--") else [text])]
    given = [value for name, value in pairwise(spread) if option and name == option[1]]
    got = f", but it is {given[-1]!r}" if given and repr(given[-1]) not in said else ""
    unknown = arguments[0].startswith("-") or said.startswith("No such command")
    command = "" if unknown else f"{arguments[0]} "
    return f"{said}{got}. See `armillary {command}--help`."


def memory_words(commands: Any, arguments: Sequence[str]) -> str:
    """That the memory does not suffice, and which options of the command that ran take less of it."""
    command = getattr(commands, "commands", {}).get(arguments[0])
    known = {option for one in getattr(command, "params", ()) for option in one.opts}
    options = [one for one in ("--batch-size", "--max-tokens", "--tokens", "--workers", "--seeds") if one in known][:2]
    remedy = f"Lower {' or '.join(options)}" if options else "Ask for less, or take a larger machine"
    return f"The memory of this machine does not suffice. {remedy}."


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the machine's or the device's memory did not suffice."""
    return (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "can't allocate" in str(error)
    )
