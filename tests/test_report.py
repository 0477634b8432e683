"""The page: what it says, that nothing in it can break out, and that it opens alone without error."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import sample_record
from armillary.estimates import MINIMUM_MEMBERS
from armillary.figures import Reading, drawings
from armillary.records.record import Record
from armillary.report import write_report
from armillary.report.explored import embedded_json, explored
from armillary.report.markup import interval
from armillary.report.words import direction
from real_record import KINDS, real_record

ATTACK = "</script><script>window.bad=1</script><img src=x onerror=window.bad=1>"


class Elements(HTMLParser):
    """Every element with its attributes, and the text outside scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else self.inside

    def handle_endtag(self, tag):
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data):
        if not self.inside:
            self.text.append(data)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return Record.open(sample_record.sample_record(tmp_path_factory.mktemp("report") / "record"))


@pytest.fixture(scope="module")
def page(record, tmp_path_factory):
    return write_report(record, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def text(page):
    return _text(page)


def _read(path: Path) -> Elements:
    parser = Elements()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def _text(path: Path) -> str:
    return re.sub(r"\s+", " ", "".join(_read(path).text))


def _written(record: Record, tmp_path: Path, *, dataset=None, provenance=None) -> Path:
    changed = Record.write(
        tmp_path / "changed",
        record.study,
        record.provenance if provenance is None else provenance,
        record.dataset if dataset is None else dataset,
    )
    return write_report(changed, tmp_path / "report.html")


def _attacked(record: Record, tmp_path: Path) -> Path:
    titles = [ATTACK, "<b>x</b>", "\u2028", "&lt;", "'\"`", "\\u003c/script>"]
    provenance = json.loads(json.dumps(record.provenance))
    provenance["decoder"]["name"] = f"model {ATTACK}"
    provenance["documents"]["titles"] = titles
    provenance["documents"]["genre"] = ATTACK
    provenance["documents"]["skipped"] = [{"title": ATTACK, "reason": ATTACK}]
    dataset = record.dataset.assign_coords(
        document=titles,
        condition=["trained", "initial-library-seed0", f"ablated-{ATTACK}"],
        band=["1-3", "4-15", ATTACK],
    )
    dataset["mean_overlap"].attrs["definition"] = ATTACK
    dataset["clustering_order_parameter"].attrs["grouping"] = ATTACK
    return _written(record, tmp_path, dataset=dataset, provenance=provenance)


# what it says


def test_the_answer_states_documents_model_and_quantization(text):
    assert f"On {len(sample_record.DOCUMENTS)} documents of {sample_record.TOKENS_PER_DOCUMENT} tokens each" in text
    assert "tiny <invented> decoder, a 4-bit (Q4_1) model" in text
    assert "“library” is the library's default standard deviation, 0.02. Of the initial conditions one seed" in text
    assert "Of the initial conditions one seed is shown." in text


def test_the_answers_numbers_are_the_records_estimates(record, text):
    for condition in ("trained", "initial-library-seed0", "ablated-mlp"):
        estimate = record.estimate(
            "mean_overlap", condition=condition, layer=3, tap="block", tokens="without_first", preparation="normalize"
        )
        assert str(estimate).split("] ")[0].replace("-", "−") + "]" in text


def test_trained_minus_initial_stands_with_its_sign_and_paired_interval(text):
    assert re.search(
        r"Trained minus initial, paired by document: −0\.\d+ \[−0\.\d+, −0\.\d+\] against initial \(library, seed 0\), lower",
        text,
    )


def test_two_recipes_with_opposite_signs_are_said_to_decide_the_sign(record, tmp_path):
    dataset = (
        record.dataset.copy(deep=True)
        .isel(condition=[0, 1, 1, 2])
        .assign_coords(condition=["trained", "initial-released-seed0", "initial-library-seed0", "ablated-mlp"])
    )
    dataset["mean_overlap"].loc[{"condition": "initial-released-seed0"}] *= 0.3
    assert "The sign depends on the initialization recipe" in _text(_written(record, tmp_path, dataset=dataset))


def test_two_seeds_of_a_recipe_are_not_called_one(record, tmp_path):
    dataset = record.dataset.isel(condition=[0, 1, 1]).assign_coords(
        condition=["trained", "initial-library-seed0", "initial-library-seed1"]
    )
    said = _text(_written(record, tmp_path, dataset=dataset))
    assert "a few seeds are shown" in said and "ne seed each" not in said


def test_the_sign_is_not_said_to_depend_on_recipes_that_agree(text):
    assert "The sign depends on" not in text


@pytest.mark.parametrize(
    ("ends", "sign"),
    [((1.0, 0.5, 1.5, 8), 1), ((-1.0, -1.5, -0.5, 8), -1), ((0.1, -0.5, 0.7, 8), 0), ((math.nan,) * 3 + (0,), 0)],
)
def test_a_sign_is_claimed_only_where_the_interval_leaves_zero_out(ends, sign):
    assert direction(ends) == sign


def test_undefined_values_are_shown_as_undefined_and_never_as_numbers(page, text):
    assert "undefined" in text
    assert not re.search(r"\bnan\b", text, flags=re.IGNORECASE)
    assert interval((math.nan, math.nan, math.nan, 0), 0.95) == '<span class="undefined">undefined</span>'
    row = re.search(
        r"participation rank, rows centered, then normalized.*?</table>",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    ).group(0)
    assert 'class="undefined">undefined' in row.split("without MLP")[1].split("</tr>")[0]


def test_a_value_that_only_some_documents_have_says_how_many(text):
    assert f"defined in {len(sample_record.DOCUMENTS) - 1} of {len(sample_record.DOCUMENTS)}" in text


def test_what_was_never_measured_is_not_spoken_of(record, tmp_path):
    dataset = record.dataset.drop_vars(["clustering_order_parameter", "cluster_count", "overlap_histogram"])
    said = _text(_written(record, tmp_path, dataset=dataset))
    assert "not measured" not in said and "clustering order parameter" not in said
    assert "mean overlap" in said


def test_few_documents_are_flagged_and_enough_are_not(record, tmp_path, text):
    assert f"below {MINIMUM_MEMBERS} an interval may be far too wide or too narrow" in text  # the sample has six
    few = record.dataset.isel(document=slice(4))
    assert "Only 4 documents" in _text(_written(record, tmp_path / "few", dataset=few))
    many = record.dataset.isel(document=[0, 1, 2, 3, 4, 5, 0, 1]).assign_coords(document=[f"d{i}" for i in range(8)])
    assert "far too wide or too narrow" not in _text(_written(record, tmp_path / "many", dataset=many))


def test_one_document_gets_a_page_that_gives_no_interval(record, tmp_path):
    said = _text(_written(record, tmp_path, dataset=record.dataset.isel(document=[0])))
    assert "no interval is given anywhere on this page" in said and "[no interval]" in said


def test_skipped_documents_are_named_with_their_reason(text):
    assert "broken.txt (not UTF-8)" in text


def _altered(record, tmp_path, change):
    """The record with altered numbers of the statement, and its page as text."""
    dataset = record.dataset.copy(deep=True)
    change(dataset["statement_value"])
    reading = Reading(Record.write(tmp_path / "altered", record.study, record.provenance, dataset))
    return reading, _text(write_report(reading, tmp_path / "altered.html"))


def _judgment(reading, measurement, transformation, layer=2):
    return reading.audits[layer].of(measurement, transformation)


def test_the_statement_says_what_survives_re_parametrizations_and_what_depends_on_a_metric(record, tmp_path, text):
    assert re.search(
        r"unmoved by every listed transformation that a re-parametrization of this decoder can bring about and that "
        r"leaves its function unchanged \(orthogonal, permutation of features, global scale and gain of the next "
        r"norm\): algebraic rank\. These depend on a basis or a metric that training happened to choose: mean overlap "
        r"and participation rank \(every preparation\)\.",
        text,
    )
    assert "No transformation in the table changed" not in text  # a witness moves the algebraic rank
    assert "changes on a witness (opposed pairs: 1 to 2)" in text and "unmoved on these documents" in text

    def keep(values):
        kept = {"statement_measurement": "mean_overlap | normalize"}
        values.loc[kept] = values.loc[{**kept, "transformation": "none"}]

    reading, said = _altered(record, tmp_path, keep)
    assert "training happened to choose: mean overlap and" in said  # it stayed by accident, as a witness shows
    assert _judgment(reading, "mean_overlap | normalize", "gain of the next norm").on_witness_only


def test_a_rotation_that_moves_a_number_refutes_its_claim_in_a_flag(record, tmp_path):
    def turn(values):
        values.loc[{"transformation": "orthogonal", "statement_measurement": "mean_overlap | normalize"}] += 0.1

    reading, said = _altered(record, tmp_path, turn)
    assert "A claim was refuted. mean_overlap | normalize, orthogonal: claim refuted: changes by 0.1" in said
    assert "Even an orthogonal map changes mean overlap: these depend on the coordinates themselves" in said
    assert len([one for audit in reading.audits.values() for one in audit.refuted]) == 2


def test_a_change_has_the_paired_difference_of_its_documents(record):
    change = _judgment(Reading(record), "mean_overlap | normalize", "gain of the next norm").verdict
    values = record.dataset["statement_value"].sel(statement_layer=2, statement_measurement="mean_overlap | normalize")
    expected = float((values.sel(transformation="gain of the next norm") - values.sel(transformation="none")).mean())
    assert change.difference == pytest.approx(expected) and change.word == "changes"


def test_a_change_that_cancels_over_documents_is_a_change(record, tmp_path):
    def swing(values):
        name = {"statement_measurement": "mean_overlap | normalize"}
        before = values.sel(transformation="none", **name)
        for transformation in ("general linear, k=4", "gain of the next norm"):
            values.loc[{"transformation": transformation, **name}] = before * (
                1 + 0.3 * np.array([1, -1, 1, -1, 1, -1])
            )

    reading, said = _altered(record, tmp_path, swing)
    change = _judgment(reading, "mean_overlap | normalize", "general linear, k=4").verdict
    assert change.low < 0 < change.high and change.word == "changes"
    assert "in a document" in said


def test_one_document_that_moved_is_proof_enough(record, tmp_path):
    where = {"statement_measurement": "mean_overlap | normalize", "document": sample_record.DOCUMENTS[1]}

    def keep_all_but_one(values):
        name = {"statement_measurement": "mean_overlap | normalize"}
        values.loc[{**name, "transformation": "centering"}] = values.sel(transformation="none", **name)
        values.loc[{**where, "transformation": "centering", "statement_layer": 4}] -= 1e-3

    reading, _ = _altered(record, tmp_path, keep_all_but_one)
    assert _judgment(reading, "mean_overlap | normalize", "centering", 4).verdict.word == "changes"
    stays = _judgment(reading, "mean_overlap | normalize", "centering", 2)
    assert stays.on_witness_only and stays.verdict.word == "changes"


def test_a_number_that_a_document_loses_under_a_map_has_changed(record, tmp_path):
    where = {"transformation": "general linear, k=4", "statement_measurement": "mean_overlap | normalize"}

    def lose(values):
        values.loc[{**where, "document": sample_record.DOCUMENTS[0]}] = np.nan

    reading, said = _altered(record, tmp_path, lose)
    lost = _judgment(reading, "mean_overlap | normalize", "general linear, k=4").verdict
    assert lost.word == "changes" and math.isinf(lost.largest) and "defined on one side only in a document" in said


def test_a_record_from_before_measured_floors_is_still_judged_and_nothing_in_it_is_called_proved(record, tmp_path):
    dataset = sample_record.older_statement(record.dataset)
    older = Reading(Record.write(tmp_path / "older", record.study, record.provenance, dataset))
    said = _text(write_report(older, tmp_path / "older.html"))
    assert "This record is older than measured floors" in said
    words = {one.verdict.word for audit in older.audits.values() for one in audit.judgments}
    assert words == {"survived", "changes"}
    rough = dataset.copy(deep=True)
    name = {"statement_measurement": "mean_overlap | normalize"}
    for transformation, factor in (("orthogonal", 1 + 2e-5), ("gain of the next norm", 1 + 1e-4)):
        before = rough["statement_value"].sel(transformation="none", **name)
        rough["statement_value"].loc[{"transformation": transformation, **name}] = before * factor
    found = Reading(Record.write(tmp_path / "rough", record.study, record.provenance, rough)).audits[2]
    kept = found.of("mean_overlap | normalize", "gain of the next norm").verdict
    assert kept.word == "survived"  # ten times what a rotation did is its floor
    assert found.of("mean_overlap | normalize", "general linear, k=4").verdict.word == "changes"


def test_the_statement_names_the_condition_it_was_made_on():
    record = real_record("long")
    assert record.dataset["statement_value"].attrs["condition"] == "initial-library-seed0"
    said = "".join(str(drawing.caption) for drawing in drawings(Reading(record)).values())
    assert "one condition (initial (library, seed 0))" in said and "trained stream" not in said


def test_each_verdict_word_is_explained_and_each_theorem_is_named_once(text):
    assert "What the verdicts mean" in text and "an error in the package" in text
    assert "it depends on the inner products of the rows, and these stay" in text and "docs/audit.md, 1" in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_record_makes_a_page_that_reads_well(kind, tmp_path):
    said = _text(write_report(real_record(kind), tmp_path / "report.html"))
    for dark in (
        "not measured",
        "held-out",
        "Held-out",
        "In the without",
        " runs ",
        "1 depths",
        "1 conditions",
        "..",
        " ,",
    ):
        assert dark not in said.split("Provenance")[0] if dark == ".." else dark not in said, dark
    assert not re.search(r"\bnan\b|\bNone\b", said)
    assert "Loss on these documents" in said


def test_a_page_of_ones_own_measurements_answers_with_them(tmp_path):
    said = _text(write_report(real_record("custom"), tmp_path / "report.html"))
    assert "was measured at one depth in one condition. In the condition “without MLP” the participation rank" in said
    assert re.search(r"The number of groups \(rows centered, then normalized\) is \S+ \[\S+ \S+ at block 3\.", said)
    assert (
        "overlap on average" not in said and "Mean overlap at" not in said and "identical token ids in all" not in said
    )


def test_an_answer_without_a_trained_decoder_names_its_first_condition(record, tmp_path):
    dataset = record.dataset.isel(condition=[1, 2])
    said = _text(_written(record, tmp_path, dataset=dataset))
    assert "In the condition “initial (library, seed 0)” two token directions" in said
    assert "Trained minus" not in said


def test_the_token_section_says_what_exists_for_which_tokens_and_taps(tmp_path):
    said = _text(write_report(real_record("usual"), tmp_path / "report.html"))
    section = said[said.index("Which tokens") :]
    for words in (
        "there are only mean overlap, squared mean direction and participation rank.",
        "Kept without the first token only, after each block: spectra, threshold sweeps, overlap by position band, mean directions and numbers between layers.",
        "differs between layers and between conditions",
        "no difference is ever taken on it",
        "are cut at the range that a number can take",
    ):
        assert words in section, words


def test_headline_numbers_and_ranks_stand_beside_an_isotropic_cloud(record, text):
    assert "isotropic cloud0.0213, at every depth" in text
    row = re.search(r"entropy rank of s0?[^a-z]*?4347", text)
    assert row, "the entropy rank's row must end with the isotropic value 43 and the ceiling 47"


def test_the_sample_has_the_shape_of_a_real_record(record):
    real = real_record("usual")
    assert set(record.study) == set(real.study) and set(record.study["plan"]) == set(real.study["plan"])
    assert set(record.study["documents"]) == set(real.study["documents"])
    assert set(record.provenance) == set(real.provenance)
    for name in ("decoder", "documents", "calibration"):
        own = {"text_hashes"} if name == "documents" else set()  # ids given as numbers have no texts
        assert set(record.provenance[name]) - own == set(real.provenance[name]) - own, name
    assert all(
        isinstance(one, int)
        for one in (*record.provenance["documents"]["first_ids"], *real.provenance["documents"]["first_ids"])
    )
    assert {frozenset(one) for one in record.provenance["conditions"]} == {
        frozenset(one) for one in real.provenance["conditions"]
    }
    assert set(record.dataset.variables) == set(real.dataset.variables)
    for name in map(str, record.dataset.variables):
        ours, theirs = record.dataset[name], real.dataset[name]
        assert (ours.dims, set(ours.attrs), ours.dtype.kind) == (theirs.dims, set(theirs.attrs), theirs.dtype.kind), (
            name
        )
    for name in ("tap", "tokens", "preparation", "histogram_preparation", "transformation"):
        assert record.dataset[name].values.tolist() == real.dataset[name].values.tolist(), name
    for name in map(str, record.dataset.data_vars):
        asked = (json.loads(one[name].attrs.get("measured", "[]")) for one in (record.dataset, real.dataset))
        ours, theirs = ({tuple(one) for one in found} for found in asked)
        assert ours == theirs, name


def test_the_fine_print_is_there(text):
    for words in (
        "The sphere is an idealization",
        "not the overlap distribution of a spin glass",
        "is not a phase",
        "One genre of text",
        "One seed is shown",
        "The model is 4-bit (Q4_1)",
        "not token pairs",
        "Each interval stands for itself",
        "none is widened for being one of many",
    ):
        assert words in text, words


def test_massive_tokens_are_counted_and_listed(record, text):
    flagged = int((record.dataset["massive_token_mask"].sel(condition="trained") > 0).sum())
    assert f"trained{flagged} of " in text.replace(" trained", "trained")
    assert "trained: <b>bold & brash</b>, position 5, layers 3" in text


def test_provenance_names_hashes_versions_and_proofs(record, text):
    for words in (
        record.provenance["decoder"]["weight_hash"],
        record.provenance["documents"]["token_hash"],
        "2.13.0",
        "Exactly the 4 MLP output projections are zero.",
        "attention rows sum to one",
        "key value heads",
    ):
        assert words in text, words


def test_rogue_coordinates_stand_in_one_line_where_layers_agree(page, text):
    assert re.search(r"trained\s*0–4\s*7, 31, 60", text)
    assert page.read_text(encoding="utf-8").count("7, 31, 60</td>") == len(sample_record.CONDITIONS)


def test_the_methods_paragraph_names_method_level_and_resamples(text):
    methods = text[text.index("We measured tiny <invented> decoder") :]
    assert "95% bootstrap-t interval from 2000 resamples of whole documents (seed 0)" in methods
    assert "start token: none added" in methods


def test_every_figure_is_on_the_page_with_its_alt_text(record, page):
    plots = {a["data-figure"] for tag, a in _read(page).elements if tag == "figure"}
    alts = [a["aria-label"] for tag, a in _read(page).elements if a.get("role") == "img"]
    expected = drawings(Reading(record))
    assert plots == set(expected)
    assert sorted(alts) == sorted(drawing.alt for drawing in expected.values())


def test_every_link_of_the_contents_has_its_target(page):
    elements = _read(page).elements
    ids = [a["id"] for _, a in elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for tag, a in elements if tag == "a"} <= set(ids)


def test_a_smaller_record_makes_a_page(record, tmp_path):
    smaller = record.dataset.isel(condition=[0], layer=[0, 2]).sel(
        tap=["block"], tokens=["without_first"], preparation=["normalize"]
    )
    smaller = smaller[["mean_overlap", "participation_rank", "squared_mean_direction"]]
    provenance = {"decoder": {"name": "bare"}}
    said = _text(_written(record, tmp_path, dataset=smaller, provenance=provenance))
    assert "On 6 documents" in said and "the statement was not computed" in said


def test_a_page_is_written_whole_or_not_at_all(record, tmp_path, monkeypatch):
    target = tmp_path / "deep" / "report.html"
    write_report(record, target)
    before = target.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_report(record, target)
    assert target.read_bytes() == before and [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_the_methods_paragraph_says_what_the_named_recipes_are(text):
    assert "“library” is the library's default standard deviation, 0.02." in text


# nothing breaks out


def test_foreign_text_is_escaped_everywhere(record, tmp_path):
    page = _attacked(record, tmp_path)
    parser = _read(page)
    tags = [tag for tag, _ in parser.elements]
    assert tags.count("script") == 3 and "img" not in tags and "b" in tags
    assert not [name for _, attributes in parser.elements for name in attributes if name.startswith("on")]
    assert "".join(parser.text).count(ATTACK) >= 5


def test_embedded_data_is_strict_json_and_cannot_close_its_script(record):
    text = embedded_json({"title": ATTACK, "separator": "\u2028", "values": explored(drawings(Reading(record)))})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text)["title"] == ATTACK
    with pytest.raises(ValueError, match="not JSON compliant"):
        embedded_json({"value": math.nan})


def test_undefined_points_are_null_in_the_embedded_data(record):
    views = explored(drawings(Reading(record)))["ranks"]["views"][""]
    centered = next(panel for panel in views if panel["note"].startswith("rows centered"))
    ablated = next(curve for curve in centered["curves"] if curve["name"] == "without MLP")
    assert ablated["y"][-1] is None and ablated["low"][-1] is None and ablated["y"][0] is not None


# it opens alone


def test_no_resource_is_asked_of_any_network(page):
    found = re.compile(
        r"""(?:src|href|srcset|data|action|poster)\s*=\s*["']?\s*(?:https?:|//)|@import|url\(\s*["']?\s*(?:https?:|//)""",
        re.IGNORECASE,
    )
    text = page.read_text(encoding="utf-8")
    own = re.sub(r"<script>/\*\*\n\* plotly\.js.*?</script>", "", text, flags=re.DOTALL)
    assert len(own) < len(text) / 2, "plotly.js was not found, so nothing was taken out"
    assert not found.findall(own)
    assert found.findall('<img src="https://example.org/x.png">') and found.findall(
        "a { background: url(//example.org) }"
    )
    assert [a for tag, a in _read(page).elements if tag == "script" and "src" in a] == []
    assert "default-src 'none'" in text


COLLECTOR = """<script>
window.found = [];
function note(what) { window.found.push(what); show(); }
function show() {
  var asked = performance.getEntriesByType("resource").map(function (e) { return "request " + e.name; });
  if (document.documentElement) { document.documentElement.setAttribute("data-found", JSON.stringify(window.found.concat(asked))); }
}
window.addEventListener("error", function (e) { note("error " + (e.message || (e.target && e.target.tagName))); }, true);
window.addEventListener("unhandledrejection", function (e) { note("rejection " + e.reason); });
document.addEventListener("securitypolicyviolation", function (e) { note("refused " + e.violatedDirective + " " + e.blockedURI); });
["error", "warn"].forEach(function (k) { var old = console[k]; console[k] = function () { note(k + " " + [].join.call(arguments, " ")); old.apply(console, arguments); }; });
window.addEventListener("load", function () {
  document.querySelectorAll("figure input[type=range]").forEach(function (r) { r.value = r.max; r.dispatchEvent(new Event("input")); });
  document.querySelectorAll("figure button").forEach(function (b) { b.click(); b.click(); });
  window.dispatchEvent(new Event("beforeprint")); window.dispatchEvent(new Event("afterprint"));
  document.documentElement.setAttribute("data-plots", document.querySelectorAll(".plot .main-svg").length);
  document.documentElement.setAttribute("data-bad", String(window.bad));
  show();
});
</script>"""


def _opened(page: Path, tmp_path: Path) -> dict[str, str | None]:
    """The page in a headless browser, its controls moved; what was noted stands on the root element."""
    copy = tmp_path / "watched.html"
    head, _, rest = page.read_text(encoding="utf-8").partition('<meta name="generator"')
    assert rest, "the page has no place for the collector"
    copy.write_text(f'{head}{COLLECTOR}<meta name="generator"{rest}', encoding="utf-8")
    browser = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--window-size=1200,1600",
        "--virtual-time-budget=10000",
        "--dump-dom",
        copy.as_uri(),
    ]
    result = subprocess.run([browser, *options], capture_output=True, text=True, check=True, timeout=300)
    root = re.search(r"<html[^>]*>", result.stdout).group(0)
    return {name: html.unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', root)}


def _broken(page: Path, tmp_path: Path, old: str, new: str) -> Path:
    wrong = tmp_path / "wrong.html"
    text = page.read_text(encoding="utf-8")
    assert old in text
    wrong.write_text(text.replace(old, new, 1), encoding="utf-8")
    return wrong


@pytest.mark.browser
def test_the_page_opens_without_error_or_request_and_draws_every_figure(record, page, tmp_path):
    root = _opened(page, tmp_path)
    assert json.loads(root["data-found"]) == []
    assert int(root["data-drawn"]) == len(drawings(Reading(record))) > 0
    assert int(root["data-plots"]) >= int(root["data-drawn"])


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_a_real_record_opens_without_error_or_request(kind, tmp_path):
    root = _opened(write_report(real_record(kind), tmp_path / "report.html"), tmp_path)
    assert json.loads(root["data-found"]) == [] and int(root["data-drawn"]) == len(drawings(Reading(real_record(kind))))


@pytest.mark.browser
def test_foreign_text_runs_nothing_in_a_browser(record, tmp_path):
    root = _opened(_attacked(record, tmp_path), tmp_path)
    assert root["data-bad"] == "undefined" and json.loads(root["data-found"]) == [] and int(root["data-drawn"]) > 0


@pytest.mark.browser
@pytest.mark.parametrize(
    ("old", "new", "noted"),
    [
        ("</main>", "</main><script>nowhere.at.all</script>", "error Uncaught ReferenceError"),
        ("</main>", '</main><img src="http://127.0.0.1:9/x.png">', "refused img-src http://127.0.0.1:9/x.png"),
    ],
)
def test_a_page_with_an_error_or_a_request_is_caught(page, tmp_path, old, new, noted):
    found = json.loads(_opened(_broken(page, tmp_path, old, new), tmp_path)["data-found"])
    assert any(item.startswith(noted) for item in found), found


@pytest.mark.browser
def test_a_request_is_caught_where_no_policy_refuses_it(page, tmp_path):
    free = _broken(
        page,
        tmp_path,
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; ",
        "",
    )
    wrong = _broken(free, tmp_path, "</main>", '</main><img src="http://127.0.0.1:9/x.png">')
    found = json.loads(_opened(wrong, tmp_path)["data-found"])
    assert "error IMG" in found or "request http://127.0.0.1:9/x.png" in found, found


def test_a_histogram_of_identical_rows_is_drawn_in_the_last_bin(record, tmp_path):
    dataset = record.dataset.copy(deep=True)
    counts = np.zeros_like(dataset["overlap_histogram"].values)
    counts[..., -1] = 10
    dataset["overlap_histogram"].values[:] = counts
    drawing = drawings(Reading(Record.write(tmp_path / "one", record.study, record.provenance, dataset)))[
        "overlap_histograms"
    ]
    assert drawing.opening.panels[0].curves[0].y[-1] == 1.0
