"""The command line: each command gathers choices, runs one study or reads one record, and ends with a documented code.

Exit codes: 0 done, 1 a check missed, 2 bad input, 3 unsupported model, 4 numerical failure, 5 done with documents
skipped, 130 interrupted. Heavy imports happen inside the commands, so that `armillary --help` answers at once.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

import typer

from armillary.cli import audit, check, diagnose, export, lab, phase, report, resist, simulate, train
from armillary.cli.refusals import is_out_of_memory, memory_words, parser_words, refuse, with_options
from armillary.errors import ArmillaryError, Interrupted

__all__ = ["app", "main"]

app = typer.Typer(
    name="armillary",
    help="The geometry of transformers as interacting particles on a sphere: calculate first, then measure.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# in the order of the help
for command in (
    lab.lab,
    simulate.simulate,
    phase.phase,
    resist.resist,
    diagnose.diagnose,
    audit.audit,
    train.train,
    check.check,
    report.report,
    export.export,
):
    app.command()(command)


def main() -> None:
    """Run the command line; every trouble that armillary explains ends in one sentence and its exit code."""
    # Threads that wait by spinning take the cores from those that work; libgomp reads this when torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # a home it cannot write to is no trouble of a user's
    arguments = sys.argv[1:] or ["--help"]
    if threading.current_thread() is threading.main_thread():  # being asked to end is an interrupt too
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    commands = typer.main.get_command(app)
    try:
        code = commands.main(arguments, prog_name="armillary", standalone_mode=False)
    except ArmillaryError as error:
        code = refuse(with_options(str(error), arguments), error.exit_code)
    except typer.exceptions.TyperException as error:  # a wrong option: the parser's own sentence
        code = refuse(parser_words(error.format_message(), arguments), error.exit_code)
    except OSError as error:  # a full disk, a folder that was taken away: nothing of armillary's own
        where = error.filename or "A file, or what the output goes to,"
        why = f"cannot be used ({error.strerror or error})"
        code = refuse(f"{where} {why}. Check the disk and its permissions, or name another place.", 2)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        code = refuse(memory_words(commands, arguments), 2)
    else:
        if code == Interrupted.exit_code:  # before the command had begun: the parser ends without a word
            refuse("Interrupted; nothing was changed.", code)
    sys.exit(code if isinstance(code, int) else 0)
