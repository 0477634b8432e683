"""Pictures and page of a simulation: laws on top of curves, who ended where, and nothing the record does not hold."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import armillary as am
from armillary.cli.report import report
from armillary.errors import ArgumentError
from armillary.figures import Playback, Run, drawings, figure_names, reading_of, write_figures
from armillary.figures.run import time_words
from armillary.figures.runs_beside import RunPair
from armillary.oracles import overlap as laws
from armillary.records.record import Record
from armillary.report import write_report, write_run_comparison
from armillary.report.endings import ended, plateau_since
from armillary.report.explored import embedded_json, explored
from armillary.report.moved import energy_sentence, what_moved
from armillary.studies.course import law_of
from sample_record import sample_record
from simulated_record import KINDS, clouds, simulated
from test_report import _opened, _read, _text


def run_of(kind: str) -> Run:
    reading = reading_of(simulated(kind))
    assert isinstance(reading, Run)
    return reading


def curves_of(kind: str, name: str) -> dict[str, dict[str, object]]:
    """Curves by panel title and name."""
    drawing = drawings(run_of(kind))[name]
    return {panel.title: {curve.name: curve for curve in panel.curves} for panel in drawing.opening.panels}


def changed(record: Record, folder: Path, **parts: object) -> Run:
    """A copy of a record with another study, provenance or dataset."""
    has = {"study": record.study, "provenance": record.provenance, "dataset": record.dataset} | parts
    found = reading_of(Record.write(folder / "changed", has["study"], has["provenance"], has["dataset"]))
    assert isinstance(found, Run)
    return found


def test_every_figure_of_simulations_is_drawn_of_one_of_the_samples():
    drawn = {name for kind in KINDS for name in drawings(run_of(kind))}
    assert tuple(sorted(drawn)) == figure_names(Run) and len(drawn) >= 8
    assert not drawn & set(figure_names())


@pytest.mark.parametrize("kind", KINDS)
def test_every_drawing_says_in_words_what_it_shows(kind):
    for drawing in drawings(run_of(kind)).values():
        assert len(drawing.alt) > 80 and drawing.caption.endswith("."), drawing.name


@pytest.mark.parametrize("kind", KINDS)
def test_a_simulation_is_printed_and_its_page_holds_every_figure_with_its_words(kind, tmp_path):
    drawn = drawings(run_of(kind))
    files = write_figures(simulated(kind), tmp_path / "figures", ("svg", "png"))
    assert {file.stem for file in files} == set(drawn) and all(file.stat().st_size > 2000 for file in files)
    page = _read(write_report(simulated(kind), tmp_path / "report.html"))
    shown = {attributes["data-figure"] for _, attributes in page.elements if "data-figure" in attributes}
    assert shown == set(drawn)
    labels = {attributes.get("aria-label") for tag, attributes in page.elements if tag == "div"}
    assert {drawing.alt for drawing in drawn.values()} <= labels
    words = "".join(page.text)
    assert re.findall(r"[0-9=\[,] ?nan\b", words) == [] and "None" not in words
    assert f"{len(simulated(kind).dataset['system'])} <starts> of its kind" in words or kind == "layers"


def test_the_law_of_two_tokens_lies_on_the_simulated_overlap():
    curves = curves_of("pair", "directions_in_time")["mean overlap"]
    assert len(curves) == 2
    law = next(curve for name, curve in curves.items() if name == "the law")
    mean = next(curve for name, curve in curves.items() if name != "the law")
    at = np.interp(mean.x, law.x, law.y)
    assert np.asarray(mean.y) == pytest.approx(at, abs=2e-4)  # the law is drawn at its own times
    run = run_of("pair")
    simulated_overlap = run.dataset["mean_overlap after normalize"].values
    assert simulated_overlap == pytest.approx(run.law_overlap(run.times), abs=1e-6)


def test_a_simulation_that_leaves_its_law_is_told_by_the_size_of_the_difference(tmp_path):
    record = simulated("pair")
    dataset = record.dataset.copy(deep=True)
    dataset["mean_overlap after normalize"].values[1, 7] += 0.25
    text = _text(write_report(changed(record, tmp_path, dataset=dataset), tmp_path / "r.html"))
    assert "to 2.5e-01 at worst" in text and "start 2" in text


def test_a_network_of_layers_is_set_beside_the_exact_map_of_its_layers():
    run = run_of("layers")
    assert run.discrete and run.law["name"] == "residual layers"
    exact = laws.residual_layers(tokens=4, beta=4.0, step=1.0, layers=12)
    assert run.law_overlap(run.times)[0] == pytest.approx(exact, abs=1e-14)
    assert run.dataset["mean_overlap after normalize"].values[0] == pytest.approx(exact, abs=1e-12)
    assert run.time_axis.label == "layer"


def test_the_participation_rank_of_a_law_is_the_closed_form_of_its_overlap():
    law = curves_of("pair", "ranks_in_time")["participation rank"]["the law"]
    overlaps = run_of("pair").law_overlap(run_of("pair").law_times)
    assert np.asarray(law.y) == pytest.approx((2 / (1 + overlaps**2)).mean(0), abs=1e-12)


@pytest.mark.parametrize(
    ("field", "start", "expected"),
    [
        (am.on_sphere(am.AttentionDrift(am.Softmax(3.0))), "equiangular", "equiangular"),
        (am.on_sphere(am.AttentionDrift(am.Unnormalized(1.0))), "equiangular", "equiangular"),
        (am.on_sphere(am.AttentionDrift(am.Uniform(), mask=am.Causal())), "pair", "causal pair"),
        (am.pre_norm(am.AttentionDrift(am.Softmax(3.0))), "orthonormal", "scheme"),
        (am.ngpt(am.AttentionDrift(am.Softmax(3.0)), alpha=0.5), "orthonormal", "scheme"),
        (am.peri_norm(am.AttentionDrift(am.Softmax(3.0))), "orthonormal", "scheme"),
        (am.on_sphere(am.AttentionDrift(am.Softmax(3.0))), "cloud", None),
        (am.on_sphere(am.AttentionDrift(am.Softmax(3.0), mask=am.Causal())), "equiangular", None),
        (am.on_sphere(2 * am.AttentionDrift(am.Softmax(3.0))), "equiangular", None),
        (am.on_sphere(am.AttentionDrift(am.Softmax(3.0), heads=am.Heads.orthogonal(dim=5, seed=0))), "equiangular", None),
        (am.on_sphere(am.AttentionDrift(am.Hardmax(tie=1e-12))), "equiangular", None),
        (am.pre_norm(am.AttentionDrift(am.Softmax(3.0))), "equiangular", None),
    ],
)  # fmt: skip
def test_the_law_that_a_record_names_is_the_one_its_simulation_obeys(field, start, expected, tmp_path):
    starts = {
        "equiangular": am.sphere.equiangular(tokens=4, dim=5, overlap=0.2),
        "orthonormal": am.sphere.equiangular(tokens=4, dim=5, overlap=0.0),
        "pair": am.sphere.equiangular(tokens=2, dim=5, overlap=-0.3),
        "cloud": am.sphere.uniform(tokens=4, dim=5, seed=0),
    }[start]
    law = law_of(field, starts[None], am.Tsit5(rtol=1e-9))
    assert (None if law is None else law["name"]) == expected
    if law is not None:
        study = am.Simulation(
            field=field, starts=starts[None], start_words=start, until=4.0, at=5, integrator=am.Tsit5(rtol=1e-9)
        )
        run = reading_of(study.run(tmp_path / "r"))
        overlaps = run.dataset["mean_overlap after normalize"].values
        assert overlaps == pytest.approx(run.law_overlap(run.times), abs=1e-6)


def test_a_law_that_has_reached_consensus_long_before_the_end_stays_there(tmp_path):
    record = simulated("pair")
    dataset = record.dataset.assign_coords(time=[0.0, *(10.0**k for k in range(-8, 12))])
    run = changed(record, tmp_path, dataset=dataset)
    assert run.logarithmic and run.law_overlap(run.times)[:, -1] == pytest.approx(1.0, abs=1e-9)


def test_an_energy_that_is_not_licensed_has_no_figure_and_the_page_names_what_is_missing(tmp_path):
    run = run_of("causal")
    assert "energy" not in drawings(run)
    text = _text(write_report(run, tmp_path / "r.html"))
    assert "the proof lacks no mask (the causal mask lets j act on i without i acting on j)" in text
    assert "The energy never decreases" not in text and "No energy is claimed" in text


def test_an_energy_that_fell_is_not_called_rounding(tmp_path):
    record = simulated("circle")
    assert "went the wrong way between no two kept times" in _text(write_report(record, tmp_path / "a.html"))
    dataset = record.dataset.copy(deep=True)
    dataset["log_energy"].values[0, 4] -= 3.0
    text = _text(write_report(changed(record, tmp_path, dataset=dataset), tmp_path / "b.html"))
    assert re.search(r"the worst change of log \|Φ\| between two kept times is −[23]\.\de.00\.", text)


def test_repulsion_has_an_energy_whose_logarithm_goes_its_own_way(tmp_path):
    study = am.Simulation(
        field=am.on_sphere(am.AttentionDrift(am.Softmax(-2.0))), starts=clouds(tokens=6, dim=3), start_words="clouds",
        until=3.0, at=7, integrator=am.Tsit5(rtol=1e-9),
    )  # fmt: skip
    text = _text(write_report(study.run(tmp_path / "r"), tmp_path / "r.html"))
    assert "went the wrong way between no two kept times" in text


def test_a_plateau_is_called_one_and_two_clusters_have_the_lifetime_of_their_law(tmp_path):
    run = run_of("sphere")
    text = _text(write_report(run, tmp_path / "r.html"))
    assert "plateau" in ended(run) or "consensus" in ended(run)
    assert "converged" not in text
    record = simulated("circle")
    provenance = {**record.provenance, "statuses": ["reached s = 6 in 9 steps"] * 3}
    dataset = record.dataset.copy(deep=True)
    dataset["cluster_count after normalize"].values[:] = 2
    still = changed(record, tmp_path, provenance=provenance, dataset=dataset)
    assert ended(still) == "Every one of them stood on a plateau of 2 groups, which is no end."
    assert plateau_since(still, 0) == (0.0, 2)
    dataset["cluster_count after normalize"].values[:, -2] = 3
    moving = changed(record, tmp_path / "other", provenance=provenance, dataset=dataset)
    assert ended(moving) == "Every one of them had groups that still changed late in the run."


def test_clusters_too_slow_to_be_seen_are_not_called_stable(tmp_path):
    study = am.Simulation(
        field=am.on_sphere(am.AttentionDrift(am.Softmax(81.0))),
        starts=am.sphere.equiangular(tokens=3, dim=3, overlap=0.0)[None],
        start_words="three orthonormal tokens", until=10.0, at=3, integrator=am.Tsit5(rtol=1e-8),
    )  # fmt: skip
    record = study.run(tmp_path / "r")
    (status,) = record.provenance["statuses"]
    assert "still to rounding" in status and "a plateau looks the same" in status and "stable" not in status
    assert "3 groups, which is no end: a plateau looks the same (consensus is certain" in _text(
        write_report(record, tmp_path / "r.html")
    )


def test_times_are_written_out_up_to_a_million():
    assert [time_words(t) for t in (0.0, 65.789, 10000.0, 1e12, 0.01)] == ["0", "65.79", "10000", "1e12", "0.01"]


def test_two_clusters_that_are_left_get_the_predicted_lifetime_of_their_sizes(tmp_path):
    import torch

    pair = am.sphere.equiangular(tokens=2, dim=3, overlap=-0.2)
    start = am.sphere.normalize(torch.cat([pair[:1].repeat(3, 1), pair[1:]]))
    study = am.Simulation(
        field=am.on_sphere(am.AttentionDrift(am.Softmax(9.0))), starts=start[None], start_words="three and one",
        until=1.0, at=3, integrator=am.Tsit5(rtol=1e-10),
    )  # fmt: skip
    (found,) = study.run(tmp_path / "r").provenance["endings"]
    assert found["sizes"] == [3, 1]
    overlap = found["overlap"]
    assert found["lifetime"] == pytest.approx(np.exp(9 * (1 - overlap)) / (18 * (1 - overlap**2)))
    merge = laws.two_clusters_time(overlap, 0.999, beta=9.0, weights=(0.75, 0.25))
    assert found["lifetime_of_these"] == pytest.approx(merge)
    run = am.flow(study.field, study.starts, until=1 + merge, integrator=am.Tsit5(rtol=1e-10), keep=2)
    assert float((run.last[0] @ run.last[0].mT).min()) == pytest.approx(0.999, abs=2e-4)
    text = _text(write_report(Record.open(tmp_path / "r"), tmp_path / "r.html"))
    assert f"another {found['lifetime_of_these']:.3g} [{found['lifetime']:.3g}]" in text


def test_every_change_of_the_number_of_groups_is_a_row_between_the_times_it_was_seen(tmp_path):
    run = run_of("circle")
    counts = run.dataset["cluster_count after normalize"].values
    page = _read(write_report(run, tmp_path / "r.html"))
    text = re.sub(r"\s+", " ", " ".join(page.text))
    assert "connected components within 0.1 rad of angular distance" in text
    place, time = next(zip(*np.nonzero(np.diff(counts)), strict=True))
    assert (
        f"{time_words(run.times[time])} to {time_words(run.times[time + 1])} {place + 1} {counts[place, time]:g}"
        in text
    )


def test_the_merger_log_is_a_table_with_weights_and_overlaps(tmp_path):
    record = simulated("sphere")
    log = record.provenance["mergers"]
    assert log
    text = re.sub(r"\s+", " ", " ".join(_read(write_report(record, tmp_path / "r.html")).text))
    first = min(log, key=lambda one: one["time"])
    assert f"{first['time']:.6g} {first['system'] + 1} 1 + 1" in text


def test_tokens_that_end_together_stand_together_in_the_overlap_map():
    run = run_of("sphere")
    last = drawings(run)["overlap_maps"].opening.panels[-1].tiles
    values = np.asarray(last.values)
    near = np.diag(values, 1)
    groups = len(run.provenance["endings"][0]["sizes"])
    assert (near < np.cos(0.1)).sum() == groups - 1  # one border between two neighboring blocks
    assert values == pytest.approx(values.T) and np.diag(values) == pytest.approx(1)


def test_angles_are_those_of_the_states_and_no_path_crosses_the_edge():
    run = run_of("circle")
    (panel,) = drawings(run)["angles_in_time"].opening.panels
    states = run.dataset["states"].values[0]
    angles = np.degrees(np.arctan2(states[..., 1], states[..., 0]))
    drawn = np.concatenate([np.asarray(curve.y) for curve in panel.curves])
    assert sorted(drawn[np.isfinite(drawn)]) == pytest.approx(sorted(angles.ravel()))
    for curve in panel.curves:
        steps = np.abs(np.diff(np.asarray(curve.y)))
        assert not (steps > 180).any()


def test_a_staircase_changes_at_the_kept_time_at_which_it_was_seen_changed():
    run = run_of("circle")
    curve = curves_of("circle", "group_staircase")["number of groups"]["start 1"]
    counts = run.dataset["cluster_count after normalize"].values[0]
    for time, count in zip(run.times, counts, strict=True):
        assert curve.y[len(curve.x) - 1 - curve.x[::-1].index(time)] == count  # the last point at that time


def test_long_runs_are_drawn_against_the_logarithm_of_time():
    assert run_of("sphere").time_axis.scale == "log" and 0.0 not in run_of("sphere").drawn_times
    assert run_of("circle").time_axis.scale == "linear" and 0.0 in run_of("circle").drawn_times


def test_intervals_are_over_starts_and_one_start_has_none(tmp_path):
    curve = curves_of("circle", "directions_in_time")["mean overlap"]["mean over starts"]
    assert curve.low and all(
        low <= value <= high for low, value, high in zip(curve.low, curve.y, curve.high, strict=True)
    )
    alone = curves_of("layers", "directions_in_time")["mean overlap"]["the start"]
    assert not any(np.isfinite(alone.low))
    text = _text(write_report(simulated("layers"), tmp_path / "r.html"))
    assert "One start has no spread over starts" in text and "intervals over" not in text


def test_the_playback_holds_unit_vectors_and_colors_groups_alike():
    drawing = drawings(run_of("sphere"))["playback"]
    assert drawing.playback is not None and len(drawing.opening.panels) == 3
    points = np.asarray(drawing.playback.points)
    assert np.linalg.norm(points, axis=-1) == pytest.approx(1.0)
    sizes = sorted(drawing.playback.colors.count(color) for color in set(drawing.playback.colors))
    assert sizes == sorted(run_of("sphere").provenance["endings"][0]["sizes"])
    embedded = json.loads(embedded_json(explored({"playback": drawing})))["playback"]["playback"]
    assert np.asarray(embedded["points"]) == pytest.approx(points, abs=1e-4)


def test_a_playback_that_does_not_fit_its_times_is_refused():
    with pytest.raises(ArgumentError, match="must hold 2 times of 1 tokens"):
        Playback(("a", "b"), (((0.0, 0.0, 1.0),),), ("#000000",), ())


def test_the_portrait_is_the_law_of_two_tokens_and_the_run_lies_on_it():
    (panel,) = drawings(run_of("pair"))["two_token_portrait"].opening.panels
    law, *_, dots = panel.curves
    expected = [2 * (1 - c**2) / (1 + np.exp(4 * (1 - c))) for c in law.x]
    assert np.asarray(law.y) == pytest.approx(expected, abs=1e-12)
    kept = run_of("pair").dataset["mean_overlap after normalize"].values.ravel()
    assert np.asarray(dots.x) == pytest.approx(kept) and dots.shape == "points"


def test_the_sentence_names_every_ingredient():
    said = what_moved(run_of("causal"))
    for words in (
        "6 tokens in dimension 3",
        "softmax, beta = 4",
        "causal mask",
        "identity heads",
        "post-norm",
        "s = 5",
    ):
        assert words in said
    assert energy_sentence(run_of("circle")) == "The energy never decreases: every ingredient of the proof is there."


def test_drawing_a_simulation_needs_no_model_library_and_no_simulator(tmp_path):
    path = simulated("pair").path
    code = (
        "import sys; from armillary.records.record import Record; from armillary.figures import write_figures;"
        "from armillary.report import write_report;"
        f"r = Record.open({str(path)!r}); write_report(r, {str(tmp_path / 'r.html')!r});"
        f"write_figures(r, {str(tmp_path / 'f')!r}, ('svg',));"
        "print([n for n in ('torch', 'armillary.dynamics', 'armillary.observables') if n in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_simulation_beside_a_record_of_a_decoder_is_refused_with_what_to_do(tmp_path):
    path, other = simulated("pair").path, sample_record(tmp_path / "decoder")
    with pytest.raises(ArgumentError, match=r"is a simulation\. Draw it alone: `armillary report .*record`\."):
        report([path, other], out=tmp_path / "out", quiet=True)
    report([path], out=tmp_path / "out", quiet=True)
    assert (tmp_path / "out" / "report.html").is_file()


def test_two_simulations_stand_side_by_side_on_the_same_axes(tmp_path):
    first, second = simulated("sphere"), simulated("causal")
    pair = RunPair.of(first, second, ("A", "B"))
    drawn = pair.drawings()
    assert {"directions_in_time", "ranks_in_time", "group_staircase", "overlap_maps"} <= set(drawn)
    assert {"playback_left", "playback_right"} <= set(drawn) and "playback" not in drawn
    panels = drawn["directions_in_time"].opening.panels
    for left, right in zip(panels[::2], panels[1::2], strict=True):
        assert (left.note[-1], right.note[-1]) == ("A", "B") and left.y.limits == right.y.limits
        assert (left.x.scale, right.x.scale) == ("log", "linear") and left.x.limits[0] > 0  # kinds of axes stay apart
    assert [title for title in pair.alone[0] if "energy" in title] and not pair.alone[1]
    assert not pair.same_starts and RunPair.of(first, first, ("A", "B")).same_starts
    page = write_run_comparison(first, second, tmp_path / "both", formats=()).read_text(encoding="utf-8")
    assert "They begin with different states" in page and "causal mask" in page
    assert page.count("<h2>") >= 8 and not re.search(r"\bnan\b", page[: page.index("</main>")])


@pytest.mark.browser
def test_the_page_of_two_simulations_opens_without_error_and_draws_every_figure(tmp_path):
    page = write_run_comparison(simulated("sphere"), simulated("causal"), tmp_path / "both", formats=())
    root = _opened(page, tmp_path)
    drawn = RunPair.of(simulated("sphere"), simulated("causal"), ("A", "B")).drawings()
    assert json.loads(root["data-found"]) == [] and root["data-bad"] == "undefined"
    assert int(root["data-drawn"]) == len(drawn)


@pytest.mark.parametrize("kind", ["pair", "sphere", "circle"])
def test_a_reader_can_choose_among_the_starts(kind):
    run = run_of(kind)
    drawn = drawings(run)
    names = tuple(f"start {place + 1}" for place in range(run.starts))
    for name in {"overlap_maps", "angles_in_time"} & set(drawn):
        (control,) = drawn[name].controls
        assert control.options == names and control.start == "start 1"
        first, second = (drawn[name].view((one,)).panels for one in names[:2])
        assert first != second
    if "playback" in drawn:
        played = drawn["playback"].playback
        assert (played.name, *(name for name, _ in played.further)) == names
        states = run.dataset["states"].values[1]
        assert np.allclose(played.further[0][1].points[-1], states[-1] / np.linalg.norm(states[-1], axis=-1)[:, None])


PLAYED = """<script>
window.addEventListener("load", function () {
  var canvas = document.querySelector("canvas.sphere"), range = document.querySelector("#figure-playback input");
  if (!canvas) { return; }
  function seen() { return Array.from(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data); }
  var first = canvas.dataset.shown;
  range.value = range.max; range.dispatchEvent(new Event("input"));
  var last = canvas.dataset.shown, before = seen();
  canvas.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft"}));
  var turned = seen().some(function (value, place) { return value !== before[place]; });
  var found = [first, last, before.filter(function (value) { return value > 0; }).length, turned];
  document.documentElement.setAttribute("data-played", JSON.stringify(found));
});
</script>"""


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["pair", "sphere", "circle"])
def test_the_page_opens_without_error_or_request_and_draws_every_figure(kind, tmp_path):
    page = write_report(simulated(kind), tmp_path / "r.html")
    page.write_text(page.read_text(encoding="utf-8").replace("</main>", f"</main>{PLAYED}", 1), encoding="utf-8")
    root = _opened(page, tmp_path)
    drawn = drawings(run_of(kind))
    played = sum(drawing.playback is not None for drawing in drawn.values())
    assert json.loads(root["data-found"]) == [] and root["data-bad"] == "undefined"
    assert int(root["data-drawn"]) == len(drawn)
    assert int(root["data-plots"]) >= len(drawn) - played
    if played:
        first, last, drawn_pixels, turned = json.loads(root["data-played"])
        times = run_of(kind).times
        assert (
            (first, last) == (run_of(kind).when(times[0]), run_of(kind).when(times[-1]))
            and drawn_pixels > 1000
            and turned
        )
