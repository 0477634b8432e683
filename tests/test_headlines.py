"""What one writes down of a record says what the record says: headline numbers, methods, and what a notebook shows."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from armillary.errors import UnsoundError
from armillary.estimates import Estimate
from armillary.figures import Reading
from armillary.records.headlines import HeadlineTable, shown_layers
from armillary.records.record import Record
from armillary.report.words import Facts, methods
from sample_record import CONDITIONS, DOCUMENTS, sample_dataset, sample_provenance, sample_record, sample_study

ODD = HeadlineTable("50% of a_b & <c> | $d", ("block 1",), (("# *e*", (("f_1 ~ ^ \\ {g}", ("-0.5 [-1.0, 2e-05]",)),)),))


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return Record.open(sample_record(tmp_path_factory.mktemp("records") / "lab"))


def test_headline_numbers_are_the_records_estimates(record):
    table = record.headlines()
    assert table.heads == ("embedding", "block 1", "block 2", "block 3", "block 4")
    titles = [title for title, _ in table.groups]
    assert titles[0] == "mean overlap, rows normalized" and len(titles) == 3
    _, rows = table.groups[0]
    assert [label for label, _ in rows] == ["trained", "initial (library, seed 0)", "without MLP"]
    for (_, cells), condition in zip(rows, CONDITIONS, strict=True):
        for layer, cell in enumerate(cells):
            found = record.estimate(
                "mean_overlap", condition=condition, layer=layer, tap="embedding" if layer == 0 else "block",
                tokens="without_first", preparation="normalize",
            )  # fmt: skip
            assert cell == str(found).partition("]")[0] + "]"


def test_what_is_undefined_says_so_and_what_some_documents_lack_says_how_many_have_it(record):
    text = str(record.headlines())
    assert "undefined" in text and f"({len(DOCUMENTS) - 1} of {len(DOCUMENTS)} documents)" in text and "nan" not in text


def test_a_record_of_ones_own_leads_with_its_own_measurements(tmp_path):
    dataset = sample_dataset()[["stable_rank", "loss"]]
    opened = Record.write(tmp_path / "own", sample_study(), sample_provenance(), dataset)
    titles = [title for title, _ in opened.headlines().groups]
    assert titles == ["stable rank, rows normalized", "stable rank, rows centered, then normalized"]


def test_markdown_has_one_cell_for_each_head_and_no_markup_of_foreign_text(record):
    lines = [line for line in record.headlines().markdown().splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {len(record.headlines().heads) + 2}
    odd = ODD.markdown()
    assert r"**\# \*e\***" in odd and r"f\_1" in odd and r"a\_b & \<c\>" in odd


def test_latex_is_balanced_and_no_foreign_character_is_a_command(record):
    for table in (record.headlines(), ODD):
        text = table.latex()
        columns = len(table.heads) + 1
        body = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
        assert all(len(re.findall(r"(?<!\\)&", line)) == columns - 1 for line in body)
        assert len(re.findall(r"(?<!\\)\{", text)) == len(re.findall(r"(?<!\\)\}", text))
        assert not re.search(r"(?<!\\)[%#_~^]", text.replace(r"\~", ""))
    assert r"50\% of a\_b \& \textless{}c\textgreater{} | \$d" in ODD.latex()
    assert (
        r"f\_1 \textasciitilde{} \textasciicircum{} \textbackslash{} \{g\} & $-$0.5 [$-$1.0, 2e-05] \\" in ODD.latex()
    )


def test_the_methods_paragraph_is_the_one_of_the_page(record):
    said = record.methods()
    assert said in methods(Facts(Reading(record))).replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'")
    assert "6 sequences of 48 tokens" in said and "95% bootstrap-t interval from 2000 resamples" in said


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.open += [tag] if tag != "br" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_notebook_shows_the_headline_numbers_and_nothing_foreign_runs(record, tmp_path):
    provenance = sample_provenance()
    provenance["decoder"]["name"] = "<script>alert(1)</script>"
    odd = Record.write(tmp_path / "a<b>", sample_study(), provenance, sample_dataset())
    for shown in (record._repr_html_(), odd._repr_html_()):
        parser = Balanced()
        parser.feed(shown)
        assert parser.open == [] and "script" not in parser.seen and "table" in parser.seen
    assert "without MLP" in record._repr_html_() and repr(record).startswith(f"<Record {record.path}: tiny")


def test_one_document_has_no_headline_interval_and_a_notebook_says_so(tmp_path):
    opened = Record.write(tmp_path / "one", sample_study(), sample_provenance(), sample_dataset().isel(document=[0]))
    with pytest.raises(UnsoundError, match="at least two"):
        opened.headlines()
    assert "One document gives no interval" in opened._repr_html_()


def test_a_notebook_shows_an_estimate_with_what_weakens_it():
    assert Estimate(11.4193, 10.88, 12.01, level=0.95, members=64)._repr_html_() == (
        "<b>11.42</b> <small>[10.9, 12.0]</small> 95% over 64 documents"
    )
    assert "fewer than 8 documents" in Estimate(1.0, 0.9, 1.1, level=0.95, members=3)._repr_html_()


def test_the_layers_named_in_tables_reach_from_embedding_to_last_block():
    assert shown_layers(tuple(range(31))) == (0, 5, 15, 20, 30)
    assert shown_layers((0,)) == (0,)
    assert shown_layers((0, 7, 12)) == (0, 7, 12)
