"""The students' notebook from the instructor's key: the same cells, with blanks where the key has answers.

`python examples/make_week_11.py` writes `week_11.ipynb`; edit the key only, and a test keeps the two together. Blanks
are marked in the key: what stands between `### BEGIN SOLUTION` and `### END SOLUTION` goes away (of lines
outside a function, the name assigned last stays), and so does the value of a line that ends in `# ANSWER`. Cells tagged
"answer" become a place to write; "key only" and "students only" mean what they say.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEY, STUDENTS = HERE / "week_11_key.ipynb", HERE / "week_11.ipynb"

_SOLUTION = re.compile(r"^( *)### BEGIN SOLUTION\n(.*?)^ *### END SOLUTION$", flags=re.DOTALL | re.MULTILINE)
_ANSWER = re.compile(r"^(.*?[=:] ).*?(,?)  # ANSWER$", flags=re.MULTILINE)


def blanked(source: str) -> str:
    """A cell's source without its answers: a function's lines give way to NotImplementedError, values to `...`."""

    def emptied(found: re.Match[str]) -> str:
        indent, lines = found.groups()
        if indent:
            return f"{indent}raise NotImplementedError"
        last = re.findall(r"^(\w+) = ", lines, flags=re.MULTILINE)[-1]
        return f"{last} = ..."

    return _ANSWER.sub(r"\1...\2", _SOLUTION.sub(emptied, source))


def students(key: dict[str, Any]) -> dict[str, Any]:
    """The students' notebook of a key."""
    cells = []
    for cell in key["cells"]:
        tags = cell["metadata"].get("tags", [])
        if "key only" in tags:
            continue
        source = "".join(cell["source"])
        text = "*Your answer:*" if "answer" in tags else blanked(source) if cell["cell_type"] == "code" else source
        cells.append(cell | {"source": text})
    return key | {"cells": cells}


def answered(key: dict[str, Any]) -> dict[str, Any]:
    """The key as an instructor runs it: without what is for students only."""
    return key | {"cells": [one for one in key["cells"] if "students only" not in one["metadata"].get("tags", [])]}


def written(notebook: dict[str, Any]) -> str:
    """The text of a notebook's file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    STUDENTS.write_text(written(students(json.loads(KEY.read_text(encoding="utf-8")))), encoding="utf-8")
