"""How a simulation ended, in words and as tables: statuses counted, plateaus and their lifetimes, changes of groups."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from armillary.figures.run import Run, time_words
from armillary.report.markup import Markup, counted, element, join, listed, paragraph, table

__all__ = ["changes_table", "ended", "endings_table", "mergers_table", "plateau_since"]

COUNT = "cluster_count after normalize"
REST = 2 / 3  # of the time reached: groups unchanged since before it are on a plateau
UNFOLDED = 16  # rows that a table shows without being opened
MOST_ROWS = 600
NO_STEPS = re.compile(r"^reached (s =|layer) \S+ in \d+ (steps|layers)(: )?")


def ended(run: Run) -> str:
    """How the starts ended, counted, in a sentence or two.

    Args:
        run: the record's reading.
    """
    kinds: dict[str, int] = {}
    for place in range(run.starts):
        kind = _kind(run, place)
        kinds[kind] = kinds.get(kind, 0) + 1
    if run.starts == 1:
        return f"It {next(iter(kinds))}."
    every = "Every one of them" if len(kinds) == 1 else ""
    said = [
        f"{every or f'{number} of {run.starts}'} {kind}" for kind, number in sorted(kinds.items(), key=lambda k: -k[1])
    ]
    return f"{listed(said)}."


def _kind(run: Run, place: int) -> str:
    """What became of a start, without its own numbers."""
    status = str(run.provenance["statuses"][place])
    if not NO_STEPS.match(status):
        return "stopped before the end"
    outcome = NO_STEPS.sub("", status).partition("; tolerances")[0]
    if outcome.startswith("consensus ("):
        return "reached consensus"
    if outcome.startswith("stationary"):
        return f"ended in a state that is {outcome.partition(' (')[0]}"
    certain = " (consensus is certain: all tokens lie within a hemisphere)" if "is certain" in outcome else ""
    if outcome.startswith("still to rounding"):
        sizes = (run.provenance.get("endings") or [{}] * run.starts)[place].get("sizes", [])
        return f"stood still to rounding in {len(sizes)} groups, which is no end: a plateau looks the same{certain}"
    since, groups = plateau_since(run, place)
    rests = math.isfinite(since)
    if rests and groups > 1:
        return f"stood on a plateau of {groups} groups, which is no end{certain}"
    if rests and certain:
        return "formed one group that is still closing: consensus is certain and not reached"
    return f"had groups that still changed late in the run{certain}"


def plateau_since(run: Run, place: int) -> tuple[float, int]:
    """Since which kept time the number of groups of a start has stood still, and that number.

    Args:
        run: the record's reading.
        place: number of the start from 0.

    Returns:
        The time, infinite where it changed within the last third of the time reached or was not measured.
    """
    if COUNT not in run.dataset:
        return math.inf, 0
    counts = np.asarray(run.dataset[COUNT].values[place], dtype=np.float64)
    if not np.isfinite(counts[-1]):
        return math.inf, 0
    differ = (counts != counts[-1]).nonzero()[0]
    first = int(differ[-1]) + 1 if len(differ) else 0
    resting = run.times[first] <= REST * run.times[-1]
    return (float(run.times[first]) if resting else math.inf), int(counts[-1])


def endings_table(run: Run) -> Markup:
    """Each start at the last kept time: its status, its groups, and how long a plateau of two of them should last."""
    found = run.provenance.get("endings") or []
    rows = []
    for place, status in enumerate(run.provenance["statuses"]):
        entry = found[place] if place < len(found) else {}
        since, _ = plateau_since(run, place)
        sizes = [int(size) for size in entry.get("sizes", [])]
        said = ", ".join(map(str, sizes[:10])) + (f" and {len(sizes) - 10} more" if len(sizes) > 10 else "")
        standing = f"since {run.when(since)}" if math.isfinite(since) else "changed lately"
        rows.append([f"{place + 1}: {status}", said or "not recorded", standing, _lifetime(entry)])
    parts: list[Any] = [
        _folded(
            rows, "Each start at the end", ["start, and how it ended", "group sizes", "number unchanged", "two groups"]
        )
    ]
    if any("lifetime" in entry for entry in found):
        parts.append(
            paragraph(
                "Predicted from the two clusters' measured overlap c: the time that clusters of these sizes take to an "
                "overlap of 0.999, by quadrature of the law of two weighted clusters; in brackets "
                "e^{β(1−c)}/(2β(1−c²)), which is for equal sizes and large β. Both are exponentially sensitive to c.",
            )
        )
    return join(parts)


def _lifetime(entry: dict[str, Any]) -> str:
    if "overlap" not in entry:
        return ""
    said = f"overlap {entry['overlap']:.4g}".replace("-", "−")
    if "lifetime" not in entry:
        return f"{said}; no law for this dynamics"
    return f"{said}; another {entry['lifetime_of_these']:.3g} [{entry['lifetime']:.3g}]"


def changes_table(run: Run) -> Markup:
    """When the number of groups of each start was seen changed, under the declared grouping."""
    if COUNT not in run.dataset:
        return Markup("")
    rows = list(_changes(run))
    grouping = run.attribute(COUNT, "grouping") or str(run.study.get("grouping", "as recorded"))
    if not rows:
        return paragraph(f"The number of groups never changed between kept times (groups: {grouping}).")
    title = f"When the number of groups changed. Groups: {grouping}; seen at kept times only"
    return _folded(rows, title, ["time", "start", "groups before", "after", "which is"])


def _changes(run: Run) -> Iterator[list[Any]]:
    counts = np.asarray(run.dataset[COUNT].values, dtype=np.float64)
    steps = [(time, place) for place, row in enumerate(counts) for time in (np.diff(row) != 0).nonzero()[0]]
    for time, place in sorted(steps):
        before, after = counts[place, time], counts[place, time + 1]
        if not (np.isfinite(before) and np.isfinite(after)):
            continue
        moved = int(after - before)
        kind = counted(-moved, "merger") if moved < 0 else counted(moved, "group") + " born"
        between = f"{time_words(run.times[time])} to {time_words(run.times[time + 1])}"
        yield [between, str(place + 1), f"{before:g}", f"{after:g}", f"{kind}, net"]


def mergers_table(run: Run) -> Markup:
    """The log of tokens that were replaced by one weighted token; empty where nothing was merged."""
    log = run.provenance.get("mergers") or []
    if not log:
        return Markup("")
    rows = []
    for one in sorted(log, key=lambda entry: entry["time"]):
        weights = " + ".join(f"{weight:g}" for weight in one["weights"])
        members = ", ".join(str(token) for token in one["tokens"][:12]) + (" …" if len(one["tokens"]) > 12 else "")
        rows.append([f"{one['time']:.6g}", str(one["system"] + 1), weights, f"{one['overlap']:.12g}", members])
    title = f"Mergers: tokens replaced by one weighted token ({run.study.get('merging')})"
    return _folded(rows, title, ["time", "start", "weights", "overlap just before", "tokens, counted from 0"])


def _folded(rows: list[list[Any]], title: str, heads: list[str]) -> Markup:
    """A table that shows its first rows, and the others when opened."""
    if len(rows) <= UNFOLDED:
        return table(f"{title}.", heads, rows)
    left = f" The last {len(rows) - MOST_ROWS} are in the record only." if len(rows) > MOST_ROWS else ""
    rest = table("", heads, rows[UNFOLDED:MOST_ROWS])
    more = element("details", element("summary", f"The further {len(rows[UNFOLDED:MOST_ROWS])} of {len(rows)}"), rest)
    return join([table(f"{title}. The first {UNFOLDED} of {len(rows)}.{left}", heads, rows[:UNFOLDED]), more])
