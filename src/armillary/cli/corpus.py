"""Which texts become documents, as written on the command line: where they lie, their columns, genre and cut."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from armillary.cli.terminal import notice
from armillary.errors import ArgumentError, NothingLeft, UnsoundError
from armillary.models.cutting import parse_cut
from armillary.models.genres import embedded
from armillary.models.text_places import TEXT_COLUMN, texts_at
from armillary.models.texts import Source

if TYPE_CHECKING:
    from armillary.models.decoder import Decoder
    from armillary.models.documents import Documents

__all__ = ["Corpus", "DocumentsPath", "IdColumn", "Separator", "TextColumn"]

DocumentsPath = Annotated[
    Path | None,
    typer.Option(
        help="Folder of text files, one text file, or a table ending in .jsonl, .csv, .tsv or .parquet. "
        "Default: texts that Python carries."
    ),
]
Separator = Annotated[
    str | None, typer.Option(help=r"What stands between two documents of a text file; \n is a line end.")
]
TextColumn = Annotated[str, typer.Option(help="Column of a table that holds the text.")]
IdColumn = Annotated[
    str | None, typer.Option(help="Column of a table that names each row. Default: the number of the row.")
]

CALIBRATION_DOCUMENTS = 8
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r"}


@dataclass(frozen=True)
class Corpus:
    """The options that say which texts are read.

    Attributes:
        path: A folder, a text file or a table; None for the texts that Python carries.
        genre: Of those texts, which; of others, what kind they are, in words.
        separator: Between two documents of a text file; line ends and tabs may be written as in Python.
        text_column: Of a table.
        id_column: Of a table; None calls rows by their number.
        cut: How a text becomes documents of one length, as `parse_cut` reads it.
    """

    path: Path | None
    genre: str | None
    separator: str | None
    text_column: str
    id_column: str | None
    cut: str

    def __post_init__(self) -> None:
        """Refuses what can be seen to be wrong before a model is loaded."""
        parse_cut(self.cut)
        self.source()

    def evaluation(self, decoder: Decoder, *, limit: int, tokens: int) -> Documents:
        """The documents that are measured; what they give reason to warn of is printed.

        Raises:
            ArgumentError: There are none, or the decoder cannot read so many tokens.
            UnsoundError: There is one only.
        """
        found = self.one_or_more(decoder, limit=limit, tokens=tokens)
        if len(found) < 2:
            others = "".join(f"; {one.title!r} was skipped: {one.reason}" for one in found.skipped[:1])
            raise UnsoundError(
                f"Argument `--documents` must hold at least two documents of {tokens} tokens, but it holds one, "
                f"{found.titles[0]!r}{others}. Tokens of one document are dependent, so one document gives no "
                "interval. Add documents."
            )
        return found

    def one_or_more(self, decoder: Decoder, *, limit: int, tokens: int) -> Documents:
        """The documents that are measured where one is enough; what they give reason to warn of is printed.

        Raises:
            ArgumentError: There are none, or the decoder cannot read so many tokens.
        """
        with warnings.catch_warnings(record=True) as warned:
            found = self._read(decoder, limit=limit, tokens=tokens, offset=0)
        for one in warned:
            notice(f"warning: {one.message}")
        return found

    def calibration(self, decoder: Decoder, evaluation: Documents) -> Documents | None:
        """The next documents of the same texts; with fewer than two left, the views that need them are left out."""
        try:
            with warnings.catch_warnings(record=True):  # the same texts were warned of before
                found = self._read(
                    decoder, limit=CALIBRATION_DOCUMENTS, tokens=evaluation.tokens, offset=len(evaluation)
                )
        except NothingLeft:
            return None
        return found if len(found) > 1 else None

    def _read(self, decoder: Decoder, *, limit: int, tokens: int, offset: int) -> Documents:
        from armillary.models.documents import Documents
        from armillary.models.selection import Rule

        if tokens > decoder.facts.context:
            raise ArgumentError(
                f"Argument `--max-tokens` must be at most {decoder.facts.context}, the context of this decoder, but it "
                f"is {tokens}. Ask for fewer."
            )
        rule = Rule(limit, tokens, offset, parse_cut(self.cut))
        return Documents.of(self.source(), decoder.tokenizer, rule, genre=self.genre or "" if self.path else "")

    def source(self) -> Source:
        """The texts, not yet read."""
        if self.path is None:
            for option, value in (
                ("--separator", self.separator),
                ("--text-column", None if self.text_column == TEXT_COLUMN else self.text_column),
                ("--id-column", self.id_column),
            ):
                if value is not None:
                    raise ArgumentError(
                        f"Argument `{option}` must come with --documents, but no documents are named and it is "
                        f"{value!r}. Name the file that it is about."
                    )
            return embedded(self.genre or "reference")
        separator = self.separator
        for written, meant in _ESCAPES.items():
            separator = None if separator is None else separator.replace(written, meant)
        return texts_at(self.path, separator=separator, text_column=self.text_column, id_column=self.id_column)
