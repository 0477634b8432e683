"""What a run leaves behind, asked questions: the labeled numbers as tables, estimates and paired differences.

A record is written once, all at once or not at all, and never changed (`storage` says how it lies in its folder).
Intervals are not stored: they are computed from the values of the documents with the level, resamples and seed of the
study.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from armillary.errors import ArgumentError
from armillary.estimates import Estimate, Intervals, Sample, estimate, intervals
from armillary.records import exports, storage, unfinished
from armillary.records.audits import audits
from armillary.records.cell_tables import cell_table, cell_words, seed_table
from armillary.records.cells import KIND
from armillary.records.combinations import combinations, the_only
from armillary.records.contrasts import Side, differences
from armillary.records.conventions import conventions, described
from armillary.records.floors import floors, resolved
from armillary.records.headlines import HeadlineTable, chosen, leading, tabled
from armillary.records.journal import Journal, is_journal, partial_of
from armillary.records.methods import methods_paragraph
from armillary.records.storage import FORMAT
from armillary.records.time_tables import SIMULATION, run_words, start_table, time_table
from armillary.terms import condition_name

if TYPE_CHECKING:
    import pandas
    import xarray

    from armillary.invariance.judgment import Audit

__all__ = ["FORMAT", "Record"]

Per = Literal["estimate", "document"]
"""What a row of a tidy table is: one estimate, or one document."""

_ROW = (
    "condition",
    "layer",
    "tap",
    "measurement",
    "preparation",
    "tokens",
    "head",
    "value",
    "low",
    "high",
    "level",
    "documents",
)


class Record:
    """One record, read from its folder.

    Attributes:
        path: The folder.
        study: Every choice, as it stands in study.toml.
        provenance: Where the numbers come from, as it stands in provenance.json.
        dataset: The measurements, an xarray Dataset in memory.
        measurements_hash: SHA-256 of the measurements (names, labels, values, attributes); figures are keyed to it.
    """

    def __init__(
        self, path: Path, study: dict[str, Any], provenance: dict[str, Any], dataset: xarray.Dataset, digest: str
    ) -> None:
        self.path = path
        self.study = study
        self.provenance = provenance
        self.dataset = dataset
        self.measurements_hash = digest

    @staticmethod
    def require_new(path: str | Path) -> Path:
        """Refuses, before any work is done, a path where no record can be written.

        Args:
            path: The folder to come.

        Returns:
            The path.

        Raises:
            ArgumentError: The path exists or cannot be written.
        """
        storage.require_new(Path(path))
        Journal.require_free(Path(path))
        return Path(path)

    @classmethod
    def write(
        cls, path: str | Path, study: Mapping[str, Any], provenance: Mapping[str, Any], dataset: xarray.Dataset
    ) -> Record:
        """Writes a new record, whole or not at all.

        Args:
            path: The new folder.
            study: Every choice; TOML has no null, so None is refused: say "all", or leave the key out.
            provenance: Where the numbers come from; NaN and None become null.
            dataset: One value a document; NaN means not measured or undefined.

        Returns:
            The record as read back.

        Raises:
            ArgumentError: The path exists or cannot be written, or something cannot be stored without loss.
        """
        storage.write(Path(path), study, provenance, dataset)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Record:
        """Reads a record whole; or, of a run that has not ended, the documents finished in every condition so far.

        Args:
            path: Its folder; that of a run that has not ended is called `NAME.partial`, and provenance says so.

        Returns:
            The record, in memory.

        Raises:
            ArgumentError: The folder is no record, of another format, damaged, or its numbers were altered.
        """
        folder = Path(path)
        if not folder.exists() and is_journal(partial_of(folder)):
            raise storage.not_a_record(
                folder, "is not finished", f"Run the same command again to go on, or read {partial_of(folder)}"
            )
        found = unfinished.stored(folder) if is_journal(folder) else storage.read(folder)
        return cls(Path(path), found.study, found.provenance, found.dataset, found.measurements_hash)

    # what was measured -------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> pandas.DataFrame:
        """What was measured, one row for each column of `values`: condition, layer, tap, measurement and so on.

        `tap` is in words ("embedding", "final"), `place` is the label in the dataset.
        """
        return self._table[0]

    @property
    def values(self) -> np.ndarray:
        """`documents combinations`: one column for each row of `columns`; NaN where undefined."""
        return self._table[1]

    @cached_property
    def _table(self) -> tuple[pandas.DataFrame, np.ndarray]:
        facts = self.provenance.get("decoder") or {}
        blocks = int(self.dataset.attrs.get("layers", facts.get("layers", -1)))
        columns, values = combinations(self.dataset, blocks=blocks)
        if columns.empty:
            self._refuse_without_documents()
        return columns, values

    # estimates ---------------------------------------------------------------------------------------------------

    @cached_property
    def _choices(self) -> dict[str, Any]:
        try:
            return {key: self.study[key] for key in ("level", "resamples", "seed")}
        except KeyError as error:
            raise storage.not_a_record(self.path, f"its study has no {error}, so no interval can be computed") from None

    @cached_property
    def intervals(self) -> Intervals:
        """The interval of every column of `values`, computed once."""
        return intervals(self.values, **self._choices).within(*self._range(self.columns["measurement"]))

    def _range(self, measurements: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest attainable value of each named measurement, as its attributes state them."""
        attributes = [self.dataset[name].attrs for name in measurements]
        lowest = np.array([float(one.get("lowest", -math.inf)) for one in attributes])
        return lowest, np.array([float(one.get("highest", math.inf)) for one in attributes])

    def rows(self) -> list[dict[str, Any]]:
        """Every measured combination as one flat row, ready for strict JSON.

        Returns:
            `condition, layer, tap, measurement, preparation, tokens, head, value, low, high, level, documents`; a
            value that is undefined in every document, and an end that the documents cannot bound, is None.
        """
        frame = self._framed(self.columns, self.intervals)
        cells = [[_cell(x) for x in frame[key].tolist()] for key in _ROW]
        return [dict(zip(_ROW, row, strict=True)) for row in zip(*cells, strict=True)]

    def _framed(self, columns: pandas.DataFrame, found: Intervals) -> pandas.DataFrame:
        frame = columns.assign(value=found.value, low=found.low, high=found.high, level=found.level)
        return self._described(frame.assign(documents=found.members))

    def sample(
        self,
        measurement: str,
        *,
        condition: str,
        layer: int | None = None,
        tap: str | None = None,
        tokens: str | None = None,
        preparation: str | None = None,
        head: int | None = None,
    ) -> Sample:
        """The documents' values of one measured combination, ready to be estimated or contrasted.

        A tap, a set of tokens and a preparation may be left out where only one was measured; nothing is assumed where
        there were several.

        Args:
            measurement: Name of the variable.
            condition: Its name, or a beginning that only one condition has.
            layer: 0 is the embedding; None for the loss.
            tap: In words ("final") or as in the dataset ("block_read").
            tokens: Which tokens took part.
            preparation: Ordered steps.
            head: Attention head, from 0; None for what is not one head's.

        Returns:
            `members` values with all that decides what they may be subtracted from.

        Raises:
            ArgumentError: That combination was not measured, or several were and the call does not say which.
        """
        column = the_only(
            self.columns,
            measurement=measurement,
            condition=self.condition(condition),
            layer=layer,
            tap=tap,
            tokens=tokens,
            preparation=preparation,
            head=head,
        )
        row = self.columns.iloc[column]
        metric = "read" if row["place"].endswith("_read") else "residual"
        source = str((self.provenance.get("documents") or {}).get("token_hash", ""))
        members = tuple(str(title) for title in self.dataset["document"].values)
        lowest, highest = (float(end[0]) for end in self._range([measurement]))
        return Sample(
            self.values[:, column],
            members,
            measurement,
            row["preparation"],
            row["tokens"],
            metric,
            source,
            lowest,
            highest,
            float(floors(self.dataset, self.columns.iloc[[column]])[0]),
        )

    def estimate(self, measurement: str, **where: Any) -> Estimate:
        """One measured combination with its interval.

        Args:
            measurement: Name of the variable.
            **where: What `sample` takes.

        Returns:
            The mean over documents with its interval.

        Raises:
            ArgumentError: That combination was not measured, or several were and the call does not say which.
            UnsoundError: Fewer than two documents have a number.
        """
        return estimate(self.sample(measurement, **where), **self._choices)

    def condition(self, name: str) -> str:
        """The full name of a condition.

        Args:
            name: Its name, its short form with colons ("ablated:mlp"), or a beginning that only one condition has.

        Returns:
            Its name, as the dataset has it.

        Raises:
            ArgumentError: No condition has that beginning, or several have.
        """
        if not self._has_documents:
            self._refuse_without_documents()
        known = [str(c) for c in self.dataset["condition"].values]
        if name in known:
            return name
        found = [c for c in known if c.startswith(condition_name(name))]
        found = [c for c in found if c == condition_name(name)] or found
        if len(found) == 1:
            return found[0]
        if found:
            raise ArgumentError(
                f"Argument `condition` must be the beginning of one name only, but {name!r} is that of "
                f"{', '.join(found)}. Spell one of them out."
            )
        raise ArgumentError(
            f"Argument `condition` must name one of {', '.join(known)}, but is {name!r}. Spell one of them out."
        )

    def contrast(self, a: str, b: str, measurement: str | None = None) -> pandas.DataFrame:
        """Condition a minus condition b, paired by document, for what was measured in both on the same tokens.

        Rows of `without_first_and_massive` are left out: which tokens are massive is decided anew in each condition,
        layer and document, so that their difference would be one of unlike tokens. Read the two values side by side.

        Args:
            a: A condition.
            b: Another.
            measurement: Only this one; None for all.

        Returns:
            One row a layer, tap, measurement, preparation and token policy, with value, low, high, level, documents;
            `floor` is how far rounding alone moves the difference (the two floors together, NaN where none was
            measured), and `resolved` whether the difference is larger.

        Raises:
            ArgumentError: A condition is not named, or the measurement was not taken in both on the same tokens.
        """
        left, right = (self.side(name) for name in (a, b))
        return self._contrasted(left, right, measurement)

    def contrast_with(
        self, other: Record, measurement: str | None = None, *, condition: str, against: str | None = None
    ) -> pandas.DataFrame:
        """A condition of this record minus one of another record on identical documents, paired by document.

        Two checkpoints, say, or two precisions of one decoder. Level, resamples and seed are those of this record; what
        the two records define in another way is left out.

        Args:
            other: A record of a decoder with as many blocks, measured on the same token ids.
            measurement: Only this one; None for all.
            condition: A condition of this record.
            against: The condition of the other one; None for the one of the same name.

        Returns:
            As `contrast`; the two folders stand in `.attrs` under "records".

        Raises:
            UnsoundError: The documents differ, or the numbers of blocks do.
            ArgumentError: A condition is not named, or the measurement was not taken in both in the same way.
        """
        left = self.side(condition)
        right = other.side(left.condition if against is None else against)
        frame = self._contrasted(left, right, measurement)
        frame.attrs["records"] = [str(self.path), str(other.path)]
        return frame

    def side(self, condition: str) -> Side:
        """One condition, ready to be subtracted from that of another record.

        Args:
            condition: Its name, or a beginning that only one has.
        """
        return Side(str(self.path), self.condition(condition), self.columns, self.values, self.dataset, self.provenance)

    def _contrasted(self, left: Side, right: Side, measurement: str | None) -> pandas.DataFrame:
        import pandas as pd

        keys, difference = differences(left, right, measurement)
        columns = keys.assign(condition=left.condition, against=right.condition)
        lowest, highest = self._range(keys["measurement"])
        found = intervals(difference, **self._choices).within(lowest - highest, highest - lowest)
        frame = self._framed(columns, found)
        apart = [floors(side.dataset, keys.assign(condition=side.condition)) for side in (left, right)]
        floor = apart[0] + apart[1]
        answers = [resolved(value, least) for value, least in zip(found.value, floor, strict=True)]
        return frame.assign(floor=floor, resolved=pd.array(answers, dtype="boolean"))

    # what one writes down -----------------------------------------------------------------------------------------

    def headlines(self) -> HeadlineTable:
        """The numbers that the record leads with, every condition at a few depths: print it, or ask it for LaTeX.

        Returns:
            A table with `.markdown()`, `.latex()` and `.html()`.

        Raises:
            UnsoundError: There is one document, so that no interval can be given.
        """
        named = chosen(self.columns, self.study.get("measurements", ()))
        here = leading(self.columns, named)
        columns = self.columns[here]
        found = intervals(self.values[:, here], **self._choices).within(*self._range(columns["measurement"]))
        about = str((self.provenance.get("decoder") or {}).get("name", "unnamed decoder"))
        documents = int(self.dataset.sizes["document"])
        return tabled(self._framed(columns, found), named, about=f"{about}, {documents} documents", asked=documents)

    def methods(self) -> str:
        """The methods paragraph: what was measured, on what and how, from what the record holds."""
        if not self._has_documents:
            self._refuse_without_documents()
        return methods_paragraph({**self.study, **self._choices}, self.provenance, self.dataset)

    def __repr__(self) -> str:
        """Path, decoder, documents and conditions in one line; of other kinds what they are and their size."""
        return f"<Record {self.path}: {self._in_words()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: where it lies, what was measured, and the headline numbers with their intervals."""
        words = f"<p><b>{html.escape(str(self.path))}</b>: {html.escape(self._in_words())}</p>"
        if self.study.get("kind") == KIND:
            return f"{words}<p>{html.escape(str(self.study['question']))}</p>"
        if self.study.get("kind") == SIMULATION:
            return f"{words}<p>energy: {html.escape(str(self.provenance.get('energy')))}</p>"
        if not any({"condition", "document"} <= set(one.dims) for one in self.dataset.data_vars.values()):
            return words
        if self.dataset.sizes["document"] < 2:
            return f"{words}<p>One document gives no interval.</p>"
        return words + self.headlines().html()

    def _in_words(self) -> str:
        if self.study.get("kind") == KIND:
            return cell_words(self.study)
        if self.study.get("kind") == SIMULATION:
            return run_words(self.study)
        if not self._has_documents:
            sizes = ", ".join(f"{count} {str(axis).replace('_', ' ')}" for axis, count in self.dataset.sizes.items())
            return f"{self.study.get('kind', 'unnamed')}, {len(self.dataset.data_vars)} measurements over {sizes}"
        model = (self.provenance.get("decoder") or {}).get("name", "unnamed decoder")
        conditions = ", ".join(str(name) for name in self.dataset["condition"].values)
        return f"{model}, {self.dataset.sizes['document']} documents, {conditions}"

    @property
    def _has_documents(self) -> bool:
        """Whether it is about documents under conditions."""
        return "condition" in self.dataset.coords and "document" in self.dataset.sizes

    def _refuse_without_documents(self) -> NoReturn:
        kind = self.study.get("kind", "record")
        raise ArgumentError(
            f"Argument `path` must be a record whose measurements have a condition and a document, but the {kind} in "
            f"{self.path} holds none. Read its arrays: `.to_xarray()`, or `.to_npz(file)` and `armillary export "
            f"{self.path} --format npz`."
        )

    # other formats -----------------------------------------------------------------------------------------------

    def to_dataframe(self, per: Per = "estimate") -> pandas.DataFrame:
        """A tidy table.

        Args:
            per: "estimate" for one row an estimate (as in `rows`), "document" for one row a document (in a diagram: a
                seed; in a simulation: a start).

        Returns:
            The table; what its columns mean is in `.attrs`.
        """
        if self.study.get("kind") == KIND:
            frame = (cell_table if per == "estimate" else seed_table)(self.dataset, self.study)
            frame.attrs["measurements"] = self.measurements_hash
            return frame
        if self.study.get("kind") == SIMULATION:
            frame = time_table(self.dataset, self.study) if per == "estimate" else start_table(self.dataset)
            frame.attrs["measurements"] = self.measurements_hash
            return frame
        if per == "estimate":
            return self._framed(self.columns, self.intervals)
        frame = self.columns
        titles = [str(title) for title in self.dataset["document"].values]
        frame = frame.loc[frame.index.repeat(len(titles))].reset_index(drop=True)
        frame["document"] = titles * len(self.columns)
        frame["value"] = self.values.T.ravel()
        return self._described(frame)

    def to_xarray(self) -> xarray.Dataset:
        """The measurements with their named axes: one value a document, whole distributions included.

        Returns:
            A dataset of its own, with the study and the hash of the numbers as JSON among its attributes.
        """
        about = {"study": json.dumps(storage.plain(self.study, "study")), "measurements": self.measurements_hash}
        return self.dataset.copy(deep=True).assign_attrs(about)

    def to_csv(self, path: str | Path, per: Per = "estimate") -> Path:
        """The tidy table as CSV with every digit, its conventions beside it in `<name>.conventions.json`."""
        return self._table_to(path, "csv", per)

    def to_parquet(self, path: str | Path, per: Per = "estimate") -> Path:
        """The tidy table as Parquet, with its conventions in the metadata of its schema."""
        return self._table_to(path, "parquet", per)

    def to_json(self, path: str | Path, per: Per = "estimate") -> Path:
        """The tidy table as strict JSON, with its conventions in front of the rows."""
        return self._table_to(path, "json", per)

    def to_npz(self, path: str | Path) -> Path:
        """Every array of the record, whole distributions included, with study and provenance as JSON text."""
        exports.require_new_file(path, "npz")
        return exports.write_arrays(self.dataset, {**self.conventions, "provenance": self.provenance}, path)

    def _table_to(self, path: str | Path, ending: str, per: Per) -> Path:
        exports.require_new_file(path, ending)
        frame = self.to_dataframe(per)
        return exports.write_table(
            frame, self.conventions | {str(key): said for key, said in frame.attrs.items()}, path
        )

    def audits(self) -> dict[int, Audit]:
        """Which of the reported numbers survived which transformation, by layer; empty where that was not tried.

        Example:
            >>> for layer, audit in record.audits().items():  # doctest: +SKIP
            ...     print(layer, audit)
        """
        return audits(self.dataset, **self._choices)

    @property
    def conventions(self) -> dict[str, Any]:
        """What a table of these numbers cannot say by itself, as plain data: it goes into every export."""
        return conventions(self.study, self.provenance)

    def _described(self, frame: pandas.DataFrame) -> pandas.DataFrame:
        frame.attrs.update(described(frame, self.dataset, self._choices, self.provenance, self.measurements_hash))
        return frame


def _cell(x: Any) -> Any:
    """A cell of a row in strict JSON: what is undefined or unbounded is None."""
    return x if isinstance(x, str) or (isinstance(x, int | float) and math.isfinite(x)) else None
