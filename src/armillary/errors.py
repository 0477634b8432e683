"""What can go wrong, and the exit code each kind of trouble ends a command with.

Every message follows one grammar: "Argument `x` must ..., but ... . <Remedy>." A caller's mistake raises
`ArgumentError`; a decoder that cannot prove its contract raises `UnsupportedModelError`; numbers that are not
finite raise `NumericalError`, which names where they were found.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "ArmillaryError",
    "CheckMissed",
    "MissingIngredientError",
    "DiskError",
    "Interrupted",
    "NothingLeft",
    "NumericalError",
    "UnsoundError",
    "UnsupportedModelError",
    "WorkersLost",
]


class ArmillaryError(Exception):
    """Any trouble that armillary explains itself; `exit_code` is what a command ends with."""

    exit_code = 1


class CheckMissed(ArmillaryError):
    """A promise was put to the test and missed: a decoder's contract, or that a condition changed only its part."""

    exit_code = 1


class ArgumentError(ArmillaryError, ValueError):
    """A caller's mistake: the message says what was expected, what came, and what to do."""

    exit_code = 2


class DiskError(ArmillaryError):
    """A disk that is full: what was finished before is kept, and the same command goes on from there."""

    exit_code = 2


class Interrupted(ArmillaryError):
    """Somebody asked a command to end: the message says what it left behind."""

    exit_code = 130


class WorkersLost(ArmillaryError):
    """Processes that measured were lost again and again; what was finished before is kept."""

    exit_code = 1


class NothingLeft(ArgumentError):
    """The documents were good but too few: no one is left beyond the offset, as for a calibration set."""


class UnsoundError(ArgumentError):
    """A question with no sound answer: an interval from one document, the difference of two unlike preparations."""


class MissingIngredientError(UnsoundError):
    """An energy was asked of a dynamics for which the proof of monotonicity does not hold; names what is absent."""


class UnsupportedModelError(ArmillaryError):
    """A model outside the known families, or a file whose tokenizer or weights cannot be proved right."""

    exit_code = 3


class NumericalError(ArmillaryError, ArithmeticError):
    """States that are NaN or infinite; the message names condition, layer, document and token."""

    exit_code = 4
