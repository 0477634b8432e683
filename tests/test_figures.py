"""Figures: what they declare, what they print, and that they say nothing the record does not hold."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import sample_record
from armillary.errors import ArgumentError, UnsoundError
from armillary.figures import (
    Axis,
    Control,
    Curve,
    Drawing,
    Panel,
    Reading,
    Rule,
    Tiles,
    View,
    drawings,
    figure_names,
    write_figures,
)
from armillary.figures import registry as figure_registry
from armillary.figures.corpus import across_documents
from armillary.figures.palette import condition_style
from armillary.figures.picture import write_picture
from armillary.figures.printed import _rule
from armillary.records.record import Record
from armillary.terms import condition_label, measurement_name, measurement_words, preparation_words
from real_record import KINDS, real_record

OF_GAUGES = {"before_and_after_gauges", "verdicts_of_gauges"}


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return Record.open(sample_record.sample_record(tmp_path_factory.mktemp("figures") / "record"))


@pytest.fixture(scope="module")
def reading(record):
    return Reading(record)


@pytest.fixture(scope="module")
def drawn(reading):
    return drawings(reading)


@pytest.fixture(scope="module")
def printed(record, tmp_path_factory):
    folder = tmp_path_factory.mktemp("printed")
    return folder, write_figures(record, folder)


def _reduced(record: Record, tmp_path, dataset) -> Record:
    return Record.write(tmp_path / "reduced", record.study, record.provenance, dataset)


def _curves(drawing: Drawing):
    return [curve for view in drawing.views for panel in view.panels for curve in panel.curves]


def test_every_figure_has_something_to_draw_from_the_sample_record(drawn):
    assert {*drawn, *OF_GAUGES} == set(figure_names())  # tests/test_gauge_pages.py draws those
    assert len(drawn) >= 12


def test_every_drawing_says_in_words_what_it_shows(drawn):
    for drawing in drawn.values():
        assert len(drawing.alt) > 80 and drawing.caption.endswith("."), drawing.name


def test_a_drawing_without_alt_text_is_refused():
    panel = Panel("", Axis("x"), Axis("y"), (Curve("a", (0.0,), (1.0,)),))
    with pytest.raises(ArgumentError, match="`alt` must say in words"):
        Drawing("bare", "Bare", "A caption.", "a plot", (View((), (panel,)),))


def test_a_drawing_declares_a_view_for_every_setting_of_its_controls():
    control = Control("layer", ("embedding", "block 1"), "slider", "embedding")
    with pytest.raises(ArgumentError, match="one view for each of the 2 settings"):
        Drawing(
            "half",
            "Half",
            "A caption.",
            "a description that is long enough to be one",
            (View(("embedding",), ()),),
            (control,),
        )


def test_a_new_figure_is_one_function_and_its_name_is_its_own(monkeypatch, reading, drawn):
    monkeypatch.setattr(figure_registry, "_FIGURES", dict(figure_registry._FIGURES))

    @figure_registry.figure
    def my_figure(reading):
        return Drawing("my_figure", "Mine", "Mine.", drawn["alignment"].alt, drawn["alignment"].views)

    assert "my_figure" in drawings(reading)

    @figure_registry.figure
    def another(reading):
        return Drawing("alignment", "Mine", "Mine.", drawn["alignment"].alt, drawn["alignment"].views)

    with pytest.raises(ArgumentError, match="'another' declared 'alignment'"):
        drawings(reading)
    alignment = lambda reading: None  # noqa: E731
    alignment.__name__ = "alignment"
    with pytest.raises(ArgumentError, match="already has a figure 'alignment'"):
        figure_registry.figure(alignment)


def test_a_profile_is_the_records_own_estimate(record, reading):
    where = {"condition": "trained", "tap": "block", "tokens": "without_first", "preparation": "normalize"}
    profile = reading.profile("mean_overlap", **where)
    for layer in reading.layers:
        estimate = record.estimate("mean_overlap", layer=layer, **where)
        assert profile.at(layer) == pytest.approx(
            (estimate.value, estimate.low, estimate.high, estimate.members), abs=1e-12
        )


def test_a_difference_is_paired_by_document_as_the_record_pairs_it(record, reading):
    table = record.contrast("trained", "ablated-mlp", "mean_overlap")
    row = table[
        (table["layer"] == 3)
        & (table["tap"] == "block")
        & (table["tokens"] == "without_first")
        & (table["preparation"] == "normalize")
    ]
    profile = reading.contrast(
        "mean_overlap", "trained", "ablated-mlp", tap="block", tokens="without_first", preparation="normalize"
    )
    assert len(row) == 1
    assert profile.at(3)[:3] == pytest.approx(tuple(row[["value", "low", "high"]].iloc[0]), abs=1e-12)


def test_undefined_numbers_leave_gaps_in_a_curve(reading):
    where = {"tap": "block", "tokens": "without_first", "preparation": "center, normalize"}
    curve = next(
        c for c in reading.by_condition("participation_rank", **where) if c.name == condition_label("ablated-mlp")
    )
    assert math.isnan(curve.y[-1]) and math.isnan(curve.low[-1]) and math.isfinite(curve.y[0])


def test_the_layer_axis_starts_at_embed_and_ends_at_the_last_block(reading, drawn):
    ticks = reading.depth_axis().ticks
    assert ticks[0] == (0.0, "embed") and ticks[-1] == (float(sample_record.BLOCKS), str(sample_record.BLOCKS))
    for name in (
        "order_parameter",
        "alignment",
        "ranks",
        "norms",
        "updates",
        "metrics",
        "token_policy",
        "offsets",
        "contrasts",
    ):
        assert all(panel.x.ticks[0][1] == "embed" for view in drawn[name].views for panel in view.panels), name


def test_all_conditions_stand_on_the_same_axes(reading, drawn):
    labels = {reading.label(name) for name in reading.conditions}
    for name in ("order_parameter", "alignment", "ranks", "overlap_histograms", "spectra", "threshold_sweep"):
        panel = drawn[name].opening.panels[0]
        assert {curve.name for curve in panel.curves} - {"isotropic cloud"} == labels, name


def test_ranks_stand_beside_their_ceiling_and_an_isotropic_cloud(record, drawn):
    rules = {rule.name.rsplit(" ", 1)[0]: rule.y for rule in drawn["ranks"].opening.panels[1].rules}
    where = {"tokens": "without_first", "preparation": "center, normalize"}
    own = {"isotropic_measurement": "participation_rank | center, normalize"}
    assert rules == pytest.approx(
        {
            "ceiling": float(record.dataset["reference_ceiling"].sel(where)),
            "isotropic cloud": float(record.dataset["isotropic_value"].sel(own)),
        }
    )


def test_a_rank_whose_isotropic_value_was_not_drawn_at_random_takes_the_closed_form(record, reading):
    where = {"tokens": "without_first", "preparation": "as given"}
    assert reading.isotropic("participation_rank", "as given") == float(
        record.dataset["reference_isotropic"].sel(where)
    )
    assert math.isnan(reading.isotropic("stable_rank", "as given"))


def test_every_rank_has_the_isotropic_clouds_value_beside_its_curve(record, drawn):
    panel = drawn["rank_family"].opening.panels[0]
    marks = {curve.name: curve.y[0] for curve in panel.curves if curve.shape == "mark"}
    values = record.dataset["isotropic_value"]
    expected = {
        measurement_words(name): float(
            values.sel(isotropic_measurement=f"{name}{sample_record.PARAMETERS.get(name, '')} | normalize")
        )
        for name in sample_record.RANKS
    }
    assert marks == expected and {curve.name for curve in panel.curves} == set(expected)


def test_the_isotropic_spectrum_stands_in_the_uncentered_panels_only(record, drawn):
    curves = {curve.name: curve for curve in drawn["spectra"].view(("block 2", "normalize")).panels[0].curves}
    squares = record.dataset["isotropic_singular_values"].values ** 2
    assert curves["isotropic cloud"].y[0] == pytest.approx(squares[0] / squares.sum())
    centered = drawn["spectra"].view(("block 2", "center, normalize")).panels[0].curves
    assert "isotropic cloud" not in {curve.name for curve in centered}


def test_a_spectrum_shorter_than_the_number_of_tokens_is_drawn_whole():
    record = real_record("long")  # 40 tokens in 24 dimensions: 39 components, 15 of them padding
    assert np.isnan(record.dataset["singular_values"].values[..., 24:]).all()
    for panel in (panel for view in drawings(Reading(record))["spectra"].views for panel in view.panels):
        for curve in panel.curves:
            assert curve.x[-1] == 24.0 and curve.drawn and curve.y[0] > 0, (panel.title, curve.name)
    values = (
        record.dataset["singular_values"].sel(condition="trained", layer=2, spectrum_preparation="normalize").values
    )
    shares = (values**2 / np.nansum(values**2, axis=-1, keepdims=True)).mean(axis=0)
    curve = drawings(Reading(record))["spectra"].view(("block 2", "normalize")).panels[0].curves[1]
    assert curve.y == pytest.approx(shares[np.array(curve.x, dtype=int) - 1].tolist())


@pytest.mark.parametrize(
    ("attributes", "drawn"),
    [
        ({"within": 0.7, "distance": "angular distance"}, [0.7]),
        ({"within": 0.7, "distance": "chordal distance"}, []),
        ({"grouping": "connected components within 0.7 rad of angular distance"}, []),
    ],
)
def test_the_declared_threshold_is_drawn_where_it_is_an_angle_and_stored_as_a_number(
    record, tmp_path, attributes, drawn
):
    dataset = record.dataset.copy(deep=True)
    for name in ("clustering_order_parameter", "cluster_count"):
        for key in ("within", "distance"):
            dataset[name].attrs.pop(key)
        dataset[name].attrs |= attributes
    panel = drawings(Reading(_reduced(record, tmp_path, dataset)))["threshold_sweep"].opening.panels[0]
    assert [rule.x for rule in panel.rules] == drawn


def test_the_share_of_a_direction_common_to_all_documents_is_the_mean_over_pairs_of_documents(record, tmp_path):
    rng = np.random.default_rng(5)
    means = rng.normal(size=(len(sample_record.DOCUMENTS), sample_record.WIDTH)) * 0.05
    means[:, 0] += 0.6
    dataset = record.dataset.copy(deep=True)
    where = {"condition": "trained", "tap": "block", "tokens": "without_first", "preparation": "normalize", "layer": 2}
    dataset["squared_mean_direction"].loc[where] = (means**2).sum(axis=1)
    dataset["mean_direction"].loc[{"condition": "trained", "layer": 2}] = means.mean(axis=0)
    between, share = across_documents(Reading(_reduced(record, tmp_path, dataset)), "trained")
    pairs = [float(a @ b) for a, b in itertools.combinations(means, 2)]
    assert between[2] == pytest.approx(np.mean(pairs))
    assert share[2] == pytest.approx(np.mean(pairs) / (means**2).sum(axis=1).mean())


def test_one_document_has_no_direction_in_common_with_others(record, tmp_path):
    reading = Reading(_reduced(record, tmp_path, record.dataset.isel(document=[0])))
    assert across_documents(reading, "trained") is None and "common_direction" not in drawings(reading)


def test_no_difference_is_taken_on_tokens_that_each_state_chooses_for_itself(reading):
    where = {"tap": "block", "preparation": "normalize"}
    with pytest.raises(UnsoundError, match="'without_first_and_massive' is chosen anew"):
        reading.contrast("mean_overlap", "trained", "ablated-mlp", tokens="without_first_and_massive", **where)
    assert reading.contrast("mean_overlap", "trained", "ablated-mlp", tokens="without_first", **where) is not None


def test_a_record_without_level_resamples_or_seed_is_refused(record, tmp_path):
    study = {key: value for key, value in record.study.items() if key != "level"}
    bare = Record.write(tmp_path / "bare", study, record.provenance, record.dataset)
    with pytest.raises(ArgumentError, match="has no level"):
        Reading(bare)


def test_intervals_follow_the_records_level(record, tmp_path):
    where = {"condition": "trained", "tap": "block", "tokens": "without_first", "preparation": "normalize"}
    narrow = Record.write(tmp_path / "narrow", {**record.study, "level": 0.5}, record.provenance, record.dataset)
    wide, tight = (Reading(one).profile("mean_overlap", **where) for one in (record, narrow))
    assert (tight.high - tight.low < wide.high - wide.low).all()


def test_every_measurement_of_the_study_stands_in_a_figure():
    record = real_record("usual")
    seen = {
        name
        for drawing in drawings(Reading(record)).values()
        for view in drawing.views
        for panel in view.panels
        for curve in panel.curves
        for name in ((panel.title, panel.note), (curve.name, panel.note), (panel.title, curve.name))
    }
    offsets = {"corpus mean, normalize": "corpus mean subtracted first"}
    offsets |= {"without rogue coordinates, normalize": "rogue coordinates removed first"}
    offsets |= {"center, normalize": "document mean subtracted first"}
    for text in record.study["measurements"]:
        name, preparation = measurement_name(text)
        words = {(measurement_words(name), w) for w in (preparation_words(preparation), offsets.get(preparation))}
        assert words & seen, text


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_record_is_drawn_and_printed(kind, tmp_path):
    reading = Reading(real_record(kind))
    drawn = drawings(reading)
    assert set(figure_names()) - set(drawn) - OF_GAUGES == (  # gauges are tried by an audit only
        {
            "alignment",
            "between_layers",
            "common_direction",
            "contrasts",
            "groups_followed",
            "offsets",
            "other_measurements",
            "rank_family",
        }
        if kind == "custom"
        else set()
    )
    assert {path.stem for path in write_figures(reading, tmp_path, ("svg",))} == set(drawn)
    for drawing in drawn.values():
        assert not re.search(r"\bnan\b|held-out|\.\.", f"{drawing.title} {drawing.caption} {drawing.alt}"), drawing.name


def test_a_caption_speaks_of_nothing_that_its_panels_do_not_show():
    drawn = drawings(Reading(real_record("custom")))
    assert "order parameter" not in drawn["order_parameter"].caption and "exp β" not in drawn["order_parameter"].caption
    assert "algebraic" not in drawn["ranks"].caption and "very long row" not in drawn["token_policy"].caption


def test_a_measurement_of_ones_own_is_drawn_against_depth(record, tmp_path):
    dataset = record.dataset.rename(smallest_overlap="my_number")
    study = {**record.study, "measurements": ["my_number(x=1) | normalize"]}
    mine = Record.write(tmp_path / "mine", study, record.provenance, dataset)
    (panel,) = drawings(Reading(mine))["other_measurements"].opening.panels
    assert (panel.title, panel.note) == ("my number", "rows normalized") and len(panel.curves) == 3


def test_position_bands_are_the_only_bands(drawn):
    for name, drawing in drawn.items():
        said = f"{drawing.title} {drawing.caption} {drawing.alt}".lower()
        assert ("band" in said) == (name == "overlap_by_band"), name


def test_the_picture_shows_order_parameter_and_overlap_of_every_condition(record, reading, tmp_path):
    from PIL import Image

    path = write_picture(reading, tmp_path / "docs" / "at-a-glance.png")
    assert [p.name for p in path.parent.iterdir()] == ["at-a-glance.png"]
    with Image.open(path) as image:
        assert image.width == pytest.approx(7.2 * 300, abs=2)
    text = " ".join(ET.parse(write_picture(record, tmp_path / "one.svg")).getroot().itertext())
    for words in ("clustering order parameter", "mean overlap", *map(condition_label, reading.conditions)):
        assert words in text, words


def test_the_picture_refuses_what_it_cannot_draw(record, tmp_path):
    with pytest.raises(ArgumentError, match="must end in one of"):
        write_picture(record, tmp_path / "picture.gif")
    with pytest.raises(ArgumentError, match="holds neither"):
        write_picture(real_record("custom"), tmp_path / "picture.png")


def test_a_histogram_draws_the_mean_share_of_exact_counts(record, drawn):
    curve = drawn["overlap_histograms"].view(("block 2", "normalize")).panels[0].curves[0]
    counts = (
        record.dataset["overlap_histogram"]
        .sel(condition="trained", layer=2, histogram_tokens="without_first", histogram_preparation="normalize")
        .transpose("document", "bin")
        .values
    )
    assert curve.y == pytest.approx((counts / counts.sum(axis=1, keepdims=True)).mean(axis=0).tolist())
    assert sum(curve.y) == pytest.approx(1.0)


def test_conditions_are_told_apart_without_color():
    names = (
        "trained",
        "initial-released-seed0",
        "initial-library-seed0",
        "ablated-mlp",
        "ablated-attention",
        "ablated-positions",
        "ablated-head-16-0",
    )
    styles = [condition_style(name, names) for name in names]
    for one, other in itertools.combinations(styles, 2):
        assert (one.dash, one.marker) != (other.dash, other.marker)
        assert one.color != other.color


def test_conditions_of_one_kind_never_look_alike():
    names = tuple(f"initial-0.0{n}-seed{n}" for n in range(1, 6)) + tuple(f"ablated-mlp-{n}-{n}" for n in range(5))
    styles = {(s.color, s.marker) for s in (condition_style(name, names) for name in names)}
    assert len(styles) == len(names)


def test_colors_stay_apart_under_red_green_blindness():
    # Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
    deuteranopia = np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    )
    protanopia = np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    )
    names = (
        "trained",
        "initial-released-seed0",
        "initial-library-seed0",
        "ablated-mlp",
        "ablated-attention",
        "ablated-positions",
    )
    colors = [condition_style(name, names).color for name in names]
    linear = np.array([[(int(c[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)] for c in colors])

    def nearest(rgb):
        seen = np.clip(rgb, 0, 1) ** (1 / 2.2)
        return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))

    assert min(nearest(linear @ m.T) for m in (deuteranopia, protanopia)) > 0.15
    red_and_green = np.array([[0.55, 0.27, 0.0], [0.33, 0.40, 0.0]]) ** 2.2  # a pair that fails
    assert nearest(red_and_green @ deuteranopia.T) < 0.15


def test_figures_are_written_in_three_formats_under_their_names(printed, drawn):
    folder, paths = printed
    assert {path.name for path in paths} == {f"{name}.{ending}" for name in drawn for ending in ("pdf", "svg", "png")}
    for path in paths:
        head = path.read_bytes()[:8]
        assert path.parent == folder
        assert head.startswith({".pdf": b"%PDF-1", ".svg": b"<?xml", ".png": b"\x89PNG"}[path.suffix]), path


def test_a_png_has_three_hundred_dots_per_inch(printed):
    from PIL import Image

    with Image.open(printed[0] / "alignment.png") as image:
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
        assert image.width == pytest.approx(7.2 * 300, abs=2)


def test_alt_text_and_the_records_hash_travel_in_the_svg(record, printed, drawn):
    tree = ET.parse(printed[0] / "alignment.svg")
    text = " ".join(tree.getroot().itertext())
    assert drawn["alignment"].alt in text and drawn["alignment"].title in text
    assert record.measurements_hash in text


def test_a_screen_reader_finds_title_and_alt_text_of_an_svg(printed, drawn):
    for name, drawing in drawn.items():
        root = ET.parse(printed[0] / f"{name}.svg").getroot()
        space = "{http://www.w3.org/2000/svg}"
        assert root.get("role") == "img"
        assert [root.find(f"{space}{tag}").text for tag in ("title", "desc")] == [drawing.title, drawing.alt]
        assert [child.tag for child in root][:2] == [f"{space}title", f"{space}desc"]


def test_alt_text_and_the_records_hash_travel_in_the_png(record, printed, drawn):
    image = pytest.importorskip("PIL.Image")
    for name, drawing in drawn.items():
        said = image.open(printed[0] / f"{name}.png").text
        assert said["Description"] == drawing.alt and said["Source"] == f"record {record.measurements_hash}"


def test_alt_text_and_the_records_hash_travel_in_the_pdf(record, printed, drawn):
    for name, drawing in drawn.items():
        raw = (printed[0] / f"{name}.pdf").read_bytes()
        said = {key: _pdf_text(raw, key) for key in (b"Subject", b"Title", b"Keywords")}
        assert said == {
            b"Subject": drawing.alt,
            b"Title": drawing.title,
            b"Keywords": f"record {record.measurements_hash}",
        }


def _pdf_text(raw: bytes, key: bytes) -> str:
    """A text of a PDF's information: in Latin letters, or in UTF-16 behind its mark."""
    at, found = raw.index(b"/" + key + b" (") + len(key) + 3, bytearray()
    while raw[at] != ord(")"):
        escaped = raw[at] == ord("\\")
        at += escaped
        found.append({ord("n"): 10, ord("r"): 13}.get(raw[at], raw[at]) if escaped else raw[at])
        at += 1
    text = bytes(found)
    return text[2:].decode("utf-16-be") if text.startswith(b"\xfe\xff") else text.decode("latin-1")


def test_the_same_record_gives_the_same_vector_files(record, printed, tmp_path):
    write_figures(record, tmp_path, formats=("svg", "pdf"))
    for name in ("alignment.svg", "alignment.pdf"):
        assert (tmp_path / name).read_bytes() == (printed[0] / name).read_bytes(), name


def test_an_unknown_format_is_refused_with_the_ones_there_are(record, tmp_path):
    with pytest.raises(ArgumentError, match=re.escape("must be of ['pdf', 'svg', 'png'], but ['gif'] came")):
        write_figures(record, tmp_path, formats=("gif",))


def test_figures_draw_what_a_smaller_record_has(record, tmp_path):
    smaller = record.dataset.isel(condition=[0], layer=[0, 2, 4]).sel(
        tap=["block"], tokens=["all", "without_first"], preparation=["normalize"]
    )
    smaller = smaller.drop_vars(
        [
            "overlap_histogram",
            "loss",
            "statement_value",
            "update_norm",
            "update_radial",
            "update_tangential",
            "update_angle",
        ]
    )
    names = set(drawings(Reading(_reduced(record, tmp_path, smaller))))
    assert "alignment" in names
    assert not names & {"overlap_histograms", "loss", "verdicts", "updates", "contrasts"}


def test_a_tap_that_is_undefined_everywhere_is_left_out(record, tmp_path):
    dataset = record.dataset.copy(deep=True)
    dataset["mean_overlap"].loc[{"tap": ["mid", "mid_read"]}] = np.nan
    drawing = drawings(Reading(_reduced(record, tmp_path, dataset)))["metrics"]
    assert {curve.name for curve in drawing.opening.panels[0].curves} == {
        "residual, after the block",
        "as the next sublayer reads it",
    }


def test_one_document_has_values_but_no_interval(record, tmp_path):
    curve = _curves(drawings(Reading(_reduced(record, tmp_path, record.dataset.isel(document=[0]))))["alignment"])[0]
    assert all(math.isfinite(y) for y in curve.y) and all(math.isnan(low) for low in curve.low)


def test_dollar_signs_in_names_are_no_mathematics(record, tmp_path):
    dataset = record.dataset.assign_coords(condition=["trained", "initial-library-seed0", "ablated-$x_{1$"])
    assert write_figures(_reduced(record, tmp_path, dataset), tmp_path / "out", formats=("svg",))


def test_drawing_needs_no_model_library(record):
    code = (
        "import sys, pathlib; from armillary.records.record import Record; from armillary.figures import write_figures; from armillary.report import write_report;"
        f"r = Record.open({str(record.path)!r}); write_report(r, {str(record.path.parent / 'r.html')!r}); write_figures(r, {str(record.path.parent / 'f')!r}, ('svg',));"
        "print([n for n in ('torch', 'transformers', 'armillary.models', 'armillary.observables') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_an_outsized_interval_does_not_flatten_the_curves():
    panel = Panel(
        "", Axis("layer"), Axis("value"), (Curve("a", (0.0, 1.0), (0.2, 0.4), (0.1, -50.0), (0.3, math.inf)),)
    )
    low, high = panel.reach
    assert 0.0 < low < 0.2 and 0.4 < high < 0.5
    wide = Panel(
        "", Axis("layer"), Axis("value", "log"), (Curve("a", (0.0, 1.0), (1.0, 100.0), (-1.0, 90.0), (2.0, 1e9)),)
    )
    low, high = wide.reach
    assert 0.1 < low < 1.0 and 100.0 < high < 1000.0


def test_a_panel_without_a_positive_number_is_not_drawn_on_a_logarithmic_axis():
    zero = (Curve("a", (0.0, 1.0), (0.0, 0.0)),)
    assert not Panel("", Axis("layer"), Axis("value", "log"), zero).drawn
    assert Panel("", Axis("layer"), Axis("value"), zero).drawn


def test_the_name_of_a_rule_finds_room_outside_the_curves():
    curves = (Curve("a", (0.0, 1.0), (0.1, 1.0)),)
    low, high = Rule("isotropic cloud 0.1", y=0.1), Rule("ceiling 1", y=1.0)
    panel = Panel("", Axis("layer"), Axis("value"), curves, (high, low))
    assert panel.label_place(high)[1] and not panel.label_place(low)[1]
    reach = panel.reach
    assert reach[0] < 0.0 and reach[1] > 1.1
    assert Panel("", Axis("layer"), Axis("value"), curves).reach[1] < 1.1


def test_a_rule_beyond_its_axis_has_no_name_that_pushes_the_panels_together():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    page = Figure(figsize=(4, 3), layout="constrained")
    canvas = FigureCanvasAgg(page)
    axes = page.subplots()
    axes.set_ylim(-0.2, -0.19)
    axes.set_xlim(0.0, 1.0)
    for rule in (Rule("no slope", y=0.0), Rule("far right", x=40.0)):
        _rule(axes, rule, "right", True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "axes sizes collapsed to zero"
        canvas.draw()
    assert axes.get_tightbbox(canvas.get_renderer()).height <= 300


def test_the_name_of_a_rule_stands_where_it_hides_no_curve():
    zero = (Rule("no difference", y=0.0),)
    axes = Axis("layer"), Axis("value", limits=(-1.0, 1.0))

    def place(*y):
        return Panel("", *axes, (Curve("a", (0.0, 0.5, 1.0), y),), zero).label_place(zero[0])

    assert place(0.9, 0.9, 0.9) == ("right", True)
    assert place(0.04, 0.04, 0.04) == ("right", False)  # a curve along the line, on its upper side
    assert place(-0.9, -0.9, 0.3) == ("left", True)  # one that crosses it at the right


def test_the_names_of_two_rules_do_not_lie_on_each_other():
    flat = (Curve("a", (0.0, 1.0), (0.0, 0.0)),)
    upper, lower = Rule("ceiling 127", y=0.85), Rule("isotropic cloud 104", y=0.8)
    panel = Panel("", Axis("layer"), Axis("value", limits=(-0.5, 1.0)), flat, (upper, lower))
    assert panel.label_place(upper)[1] and not panel.label_place(lower)[1]


def test_declared_limits_are_kept():
    assert Panel("", Axis("x"), Axis("y", limits=(-1.0, 1.0)), (Curve("a", (0.0,), (5.0,)),)).reach == (-1.0, 1.0)


def test_a_spike_does_not_flatten_the_first_conditions_histogram(record, tmp_path):
    dataset = record.dataset.copy(deep=True)
    counts = dataset["overlap_histogram"]
    counts.loc[{"condition": "ablated-mlp"}] = 0
    counts.loc[{"condition": "ablated-mlp", "bin": counts["bin"][-1]}] = 1000
    panel = drawings(Reading(_reduced(record, tmp_path, dataset)))["overlap_histograms"].opening.panels[0]
    assert max(panel.curves[-1].y) == 1.0 and panel.reach[1] < 0.5


def test_every_head_of_every_block_is_a_tile_with_the_mean_over_documents(record, drawn):
    heads = drawn["attention_heads"]
    assert [view.choice for view in heads.views] == [(condition_label(c),) for c in sample_record.CONDITIONS]
    (first, *_), numbers = heads.opening.panels, record.dataset["attention_first_mass"].sel(condition="trained")
    assert first.tiles.x == tuple(map(float, sample_record.LAYERS[1:])) and len(first.tiles.y) == sample_record.HEADS
    for head, row in zip(first.tiles.y, first.tiles.values, strict=True):
        expected = numbers.sel(head=int(head), layer=list(sample_record.LAYERS[1:])).mean("document").values
        assert row == pytest.approx(tuple(expected), abs=1e-12)
    assert {view.panels[0].tiles.limits for view in heads.views} == {(0.0, 1.0)}  # one scale of colors for all
    lowest, highest = min(map(min, first.tiles.values)), max(map(max, first.tiles.values))
    assert f"from {lowest:.3g} at block 1, head" in heads.alt and f"to {highest:.3g} at block 4, head" in heads.alt


def test_mass_on_no_token_is_drawn_only_where_rows_do_not_sum_to_one(record, drawn, tmp_path):
    titles = [panel.title for panel in drawn["attention_depth"].opening.panels]
    assert "mass on no token" not in titles and "mass on the first token" in titles
    dataset = record.dataset.copy(deep=True)
    for name in ("attention_sink_mass", "attention_sink_mass_head_mean"):
        dataset[name] = dataset[name].copy(data=dataset[name].values + 0.2)
    learned = drawings(Reading(_reduced(record, tmp_path, dataset)))["attention_depth"]
    assert "mass on no token" in [panel.title for panel in learned.opening.panels]


def test_tiles_that_do_not_fit_their_axes_are_refused_and_undefined_ones_are_not_drawn():
    with pytest.raises(ArgumentError, match=r"2 rows of 3.*Transpose them"):
        Tiles("mass", (1.0, 2.0, 3.0), (0.0, 1.0), ((0.1, 0.2), (0.1, 0.2), (0.1, 0.2)), (0.0, 1.0))
    fitting = Tiles("mass", (1.0, 2.0, 3.0), (0.0, 1.0), ((0.1, 0.2, 0.3), (0.1, 0.2, 0.3)), (0.0, 1.0))
    assert Panel("", Axis("block"), Axis("head"), (), tiles=fitting).drawn
    empty = Tiles("mass", (1.0,), (0.0,), ((math.nan,),), (0.0, 1.0))
    assert not Panel("", Axis("block"), Axis("head"), (), tiles=empty).drawn


def test_a_step_between_layers_stands_at_the_layer_that_it_leads_to(record, drawn):
    panels = {panel.title: panel for panel in drawn["groups_followed"].opening.panels}
    born = next(c for c in panels["born"].curves if c.name == condition_label("trained"))
    assert math.isnan(born.y[0]) and math.isfinite(born.y[1])
    assert "linked if more than 0.5" in drawn["groups_followed"].caption
