"""What is written by what it describes: the command line by its parser, the reference by the names, tests by tests.

`python docs/generated.py` writes `docs/cli.md` again, and a test keeps it equal to the command line. While the docs are
built, mkdocs calls `on_page_markdown`, which puts the public names into the reference page, and links each test that a
page names to its source, shown at the end of that page. `tests/family_table.py` writes the page of families.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CLI_PAGE = HERE / "cli.md"
NAMES_GO_HERE = "<!-- the public names -->"
TESTS_GO_HERE = "<!-- the tests named above -->"

_INTRODUCTION = """# Command line

Every command and every option, written by the parser itself (`python docs/generated.py`). Exit codes stand
[at the end](#exit-codes).

"""
_EXIT_CODES = """
## Exit codes

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | a check missed, or the record is whole but its pictures could not be drawn |
| 2 | bad input |
| 3 | a model that is not supported, or a rung of `armillary resist` that failed while the others were climbed |
| 4 | numbers that are not finite |
| 5 | done, but documents had to be skipped |
| 130 | interrupted |
"""


def command_line() -> str:
    """The page of the command line, as the parser of this moment has it."""
    import typer
    from typer.cli import get_docs_for_click

    from armillary.cli import app

    command = typer.main.get_command(app)
    with typer.Context(command, info_name="armillary") as context:
        told = get_docs_for_click(obj=command, ctx=context, name="armillary", title="armillary")
    body = told.split("\n", 1)[1].strip()
    body = re.sub(r"<(\S[^>]*)>(?=`)", r"<\1>", body)
    return f"{_INTRODUCTION}{body}\n{_EXIT_CODES}"


def reference() -> str:
    """One heading for each room that has public names, in the order of the pipeline, and a directive for each name."""
    import armillary

    rooms: dict[str, list[str]] = {}
    for name, module in armillary._PUBLIC.items():
        rooms.setdefault(module, []).append(name)
    lines: list[str] = []
    for module, names in rooms.items():
        lines += [f"## `{module}`", ""]
        if names == [module.rpartition(".")[2]]:
            lines += [f"::: {module}", "    options: { show_root_heading: false, heading_level: 3 }", ""]
            continue
        for name in names:
            lines += [f"::: {module}.{name}", ""]
    return "\n".join(lines)


def with_tests(markdown: str) -> str:
    """The page with every `tests/file.py::name` as a link to the source of that test, which follows at its end."""
    named = dict.fromkeys(re.findall(r"`(tests/\w+\.py)::(\w+)`", markdown))
    shown = []
    for path, name in named:
        sentence = name.removeprefix("test_").replace("_", " ")
        markdown = markdown.replace(f"`{path}::{name}`", f"[{sentence}](#{name})")
        shown.append(f"## {sentence} {{: #{name} }}\n\n`{path}`\n\n```python\n{source(path, name)}\n```\n")
    return markdown.replace(TESTS_GO_HERE, "\n".join(shown))


def source(path: str, name: str) -> str:
    """The lines of one test, decorators included."""
    text = (HERE.parent / path).read_text(encoding="utf-8")
    node = next(one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef) and one.name == name)
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    if TESTS_GO_HERE in markdown:
        return with_tests(markdown)
    return markdown.replace(NAMES_GO_HERE, reference()) if NAMES_GO_HERE in markdown else markdown


if __name__ == "__main__":
    CLI_PAGE.write_text(command_line(), encoding="utf-8")
