"""`armillary train`: runs paired by seed, a sweep that chooses rates, resuming, checkpoints, the page, and what is refused."""

from __future__ import annotations

import json
import math
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray

import armillary as am
from armillary import cli, figures
from armillary.models.genres import embedded
from armillary.models.texts import Source, Text
from armillary.records.journal import Beginning, Journal
from armillary.studies import training as study_module
from armillary.studies.training import TrainingStudy, checkpoint_folder
from armillary.training import run as run_module
from armillary.training.corpus import Corpus, byte_tokenizer
from armillary.training.penalty_texts import accepted_penalties, parse_penalty, parse_term
from armillary.training.recipes import parse_recipe
from armillary.training.robustness import (
    byte_class,
    linear_probe,
    loss_under_input_noise,
    loss_under_state_noise,
    next_token_loss,
)
from armillary.training.run import Shape, Term, Training, trained

TINY = {
    "architecture": "gpt2",
    "width": 16,
    "blocks": 2,
    "heads": 2,
    "tokens": 24,
    "documents": 4,
    "steps": 6,
    "every": 3,
}


@pytest.fixture(scope="module")
def corpus():
    return Corpus.of(embedded("reference"), tokens=24, held_out=4)


def study(corpus, **changed):
    choices = {
        "shape": Shape(**TINY), "recipes": [parse_recipe("library"), parse_recipe("fan_in_scaled")],
        "terms": [Term(), Term(am.uniformity_penalty(beta=4.0), 0.2)], "seeds": 2, "rates": (1e-3, 1e-2), "sweep_seeds": 1,
        "corpus": corpus, "checkpoints": "none",
    }  # fmt: skip
    return TrainingStudy(**{**choices, **changed})


@pytest.fixture(scope="module")
def record(corpus, tmp_path_factory):
    return study(corpus, checkpoints="first").run(tmp_path_factory.mktemp("study") / "record")


# one run ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_a_run_lowers_the_loss_and_repeats_bit_for_bit(architecture, corpus):
    shape = Shape(**{**TINY, "architecture": architecture, "steps": 30, "every": 15})
    training = Training(parse_recipe("library"), Term(am.uniformity_penalty(beta=4.0), 0.1), 1e-2, 0)
    first, again = (trained(shape, training, corpus) for _ in range(2))
    assert first["loss"][-1] < first["loss"][0] - 0.5
    assert all(np.array_equal(first[name], again[name], equal_nan=True) for name in first if name != "seconds")
    assert first["overlap"].shape == (3, 3)


def test_runs_of_one_seed_begin_alike_and_see_the_same_batches(corpus, monkeypatch):
    seen = []
    monkeypatch.setattr(
        Corpus,
        "batch",
        lambda self, starts, tokens, real=Corpus.batch: (seen.append(starts.tolist()), real(self, starts, tokens))[1],
    )
    plain = trained(Shape(**TINY), Training(parse_recipe("library"), Term(), 1e-3, 5), corpus)
    first, _ = seen.copy(), seen.clear()
    other = trained(
        Shape(**TINY), Training(parse_recipe("library"), Term(am.koleo_penalty(softening=0.05), 1.0), 1e-2, 5), corpus
    )
    assert seen == first
    assert plain["loss"][0] == other["loss"][0] and plain["loss"][-1] != other["loss"][-1]


def test_a_term_moves_the_geometry_it_names(corpus):
    shape = Shape(**{**TINY, "steps": 40, "every": 40})
    plain, apart = (
        trained(shape, Training(parse_recipe("library"), term, 1e-2, 0), corpus)
        for term in (Term(), Term(am.uniformity_penalty(beta=4.0), 1.0))
    )
    assert apart["overlap"][-1, 1:].mean() < plain["overlap"][-1, 1:].mean() - 0.1


def test_the_learning_rate_rises_and_falls_as_it_says():
    shape = Shape(**{**TINY, "steps": 100, "every": 50})
    assert shape.rate(0, 1.0) == pytest.approx(0.1) and shape.rate(9, 1.0) == 1.0 and shape.rate(10, 1.0) == 1.0
    assert shape.rate(55, 1.0) == pytest.approx(0.55) and shape.rate(100, 1.0) == pytest.approx(0.1)


# the corpus ------------------------------------------------------------------------------------------------------


def test_held_out_texts_are_not_trained_on():
    texts = [Text(name, name * 200) for name in "abcdefgh"]
    corpus = Corpus.of(Source(texts, "here", "all", "the texts"), tokens=24, held_out=2)
    assert corpus.titles == ("a", "e") and corpus.texts == 6
    assert bytes(corpus.held_out[1].tolist()) == b"e" * 24
    assert not {ord("a"), ord("e")} & set(corpus.training.tolist())


def test_tokens_are_bytes():
    tokenizer, text = byte_tokenizer(), "naïve\n\tx = 1"
    assert tokenizer(text)["input_ids"] == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text


def test_too_few_texts_are_refused():
    few = Source([Text("a", "x" * 100)], "here", "all", "the texts")
    with pytest.raises(am.ArgumentError, match="must hold at least 2 texts of 24 bytes"):
        Corpus.of(few, tokens=24, held_out=1)
    short = Source([Text(name, name * 30) for name in "abcd"], "here", "all", "the texts")
    with pytest.raises(am.ArgumentError, match="bytes to train on"):
        Corpus.of(short, tokens=24, held_out=1)


# noise and the probe ---------------------------------------------------------------------------------------------


def test_noise_of_no_size_changes_no_loss_and_much_noise_does(corpus):
    model = run_module.Shape(**TINY).config()
    from armillary.models.configurations import drawn

    model = drawn(model, seed=0)
    plain = next_token_loss(model, corpus.held_out, corpus.held_out)
    assert plain == pytest.approx(
        float(model(input_ids=corpus.held_out, labels=corpus.held_out).loss.detach()), rel=1e-5
    )
    assert loss_under_input_noise(model, corpus.held_out, share=0.0, seed=0) == plain
    assert loss_under_state_noise(model, corpus.held_out, layer=1, size=0.0, seed=0) == pytest.approx(plain, abs=1e-6)
    assert loss_under_state_noise(model, corpus.held_out, layer=1, size=1.0, seed=0) != plain


def test_a_linear_probe_reads_what_is_there_and_not_what_is_not(corpus, monkeypatch):
    """States that are the kinds themselves are read without a fault; states that are noise give the largest share."""
    from armillary.training import robustness

    ids = corpus.batch(torch.arange(40) * 30, 24)

    class States(dict):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    def told(kind):
        def tapped(model, layers):
            model.states = States()
            return model.states

        class Model:
            states = None

            def __call__(self, input_ids, use_cache):
                shown = torch.nn.functional.one_hot(byte_class(input_ids).roll(2, dims=1), 5).double()
                noise = torch.randn(*input_ids.shape, 5, generator=torch.Generator().manual_seed(0))
                self.states[1] = shown if kind == "kinds" else noise

        monkeypatch.setattr(robustness, "tap", tapped)
        return linear_probe(Model(), ids[:20], ids[20:], layer=1, back=2)

    kinds = byte_class(ids[20:])[:, :-2].flatten()
    assert told("kinds") == 1.0
    assert told("noise") == pytest.approx(float(torch.bincount(kinds).max() / len(kinds)), abs=0.1)


def test_bytes_have_kinds():
    assert byte_class(torch.tensor(list(b" aZ3\n.~"))).tolist() == [0, 1, 1, 2, 3, 4, 4]


# the study -------------------------------------------------------------------------------------------------------


def test_the_record_holds_every_run_at_the_best_rate_of_its_sweep(record, corpus):
    data = record.dataset
    assert data["loss"].dims == ("recipe", "term", "seed", "step") and data["mean_overlap"].shape == (2, 2, 2, 3, 3)
    losses = data["sweep_loss"].values.mean(-1)
    assert np.array_equal(data["best_rate"].values, np.array([1e-3, 1e-2])[losses.argmin(-1)])
    again = trained(
        Shape(**TINY), Training(parse_recipe("fan_in_scaled"), Term(), float(data["best_rate"].values[1, 0]), 1), corpus
    )
    assert np.allclose(data["loss"].values[1, 0, 1], again["loss"], atol=1e-12)
    assert record.study["stopping"].startswith("every run takes the same number of steps")


def test_steps_to_loss_are_those_at_which_the_baselines_final_loss_is_reached(record):
    data = record.dataset
    aim = data["loss"].values[0, 0, :, -1].mean()
    assert data["steps_to_loss"].attrs["aim"] == pytest.approx(aim)
    assert study_module._first_below(np.array([5.0, 4.0, 3.0]), np.array([0, 10, 20]), 3.5) == pytest.approx(15)
    assert math.isnan(study_module._first_below(np.array([5.0, 4.0]), np.array([0, 10]), 3.5))


def test_checkpoints_from_the_start_to_the_end_can_be_loaded_as_decoders(record):
    folder = checkpoint_folder(record.path) / "recipe0-term0-seed0"
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000", "step-00003", "step-00006"]
    decoder = am.load_decoder(folder / "step-00006")
    documents = am.Documents.from_texts(
        {"a": "some words here", "b": "and others too"}, decoder.tokenizer, limit=2, tokens=10
    )
    assert documents.token_ids[0].tolist() == list(b"some words")
    assert not checkpoint_folder(record.path).joinpath("recipe0-term0-seed1").exists()


def test_a_study_that_was_stopped_goes_on_and_ends_with_the_same_numbers(corpus, record, tmp_path, monkeypatch):
    calls = []

    def stopping(shape, corpus, unit, real=study_module._one):
        calls.append(unit[0])
        if len(calls) == 6:
            raise KeyboardInterrupt
        return real(shape, corpus, unit)

    monkeypatch.setattr(study_module, "_one", stopping)
    with pytest.raises(KeyboardInterrupt):
        study(corpus, checkpoints="first").run(tmp_path / "r")
    assert (tmp_path / "r.partial").is_dir() and not (tmp_path / "r").exists()
    with pytest.raises(am.ArgumentError, match="seeds"):
        study(corpus, checkpoints="first", seeds=3).run(tmp_path / "r")
    monkeypatch.undo()
    anew = []
    monkeypatch.setattr(
        study_module, "trained", lambda *given, **options: (anew.append(1), trained(*given, **options))[1]
    )
    found = study(corpus, checkpoints="first").run(tmp_path / "r")
    for name in found.dataset.data_vars:
        if name != "seconds":
            assert np.array_equal(found.dataset[name].values, record.dataset[name].values, equal_nan=True), name
    assert len(anew) == 16 - 5 and not (tmp_path / "r.partial").exists()


def test_processes_train_as_one_does(corpus, record, tmp_path):
    found = study(corpus, workers=2).run(tmp_path / "r")
    assert np.array_equal(found.dataset["loss"].values, record.dataset["loss"].values)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"terms": [Term(am.mean_direction_penalty(), 0.1)]}, "begin with the loss alone"),
        ({"recipes": [parse_recipe("library")] * 2}, "`recipes` must be all different, but library comes twice"),
        ({"recipes": []}, "`recipes` must hold one"),
        ({"rates": (0.0,)}, "`rates` must lie between 0 and 1, but 0 does not"),
        ({"rates": (0.1, 0.1)}, "`rates` must be all different, but 0.1 comes twice"),
        ({"seeds": 0}, "must be at least 1"),
        ({"checkpoints": "some"}, "`checkpoints` must be"),
        ({"level": float("nan")}, "`level` must lie between"),
    ],
)
def test_a_grid_without_meaning_is_refused(changed, words, corpus):
    with pytest.raises(am.ArgumentError, match=words):
        study(corpus, **changed)


@pytest.mark.parametrize(
    ("changed", "words", "remedy"),
    [
        ({"width": 18, "heads": 4}, "4 does not divide half of 18. Give `heads` 3", {"width": 18, "heads": 3}),
        ({"width": 9, "heads": 4}, "4 does not divide half of 9. Give `width` 8", {"width": 8, "heads": 4}),
        ({"steps": 7}, "3 does not divide 7. Give `every` 1, or `steps` 9", {"steps": 9}),
        ({"steps": 8, "every": 6}, "Give `every` 4", {"steps": 8, "every": 4}),
        ({"architecture": "bert"}, "gpt2 or llama", {"architecture": "llama"}),
        ({"blocks": 0}, "`blocks` must be at least 1, but it is 0", {"blocks": 1}),
    ],
)
def test_a_shape_that_does_not_fit_is_refused_and_its_remedy_fits(changed, words, remedy):
    with pytest.raises(am.ArgumentError, match=words):
        Shape(**{**TINY, **changed})
    Shape(**{**TINY, **remedy})


def test_terms_are_named_by_texts():
    penalty, strength = parse_term("uniformity:beta=4,centered,without_first@0.1")
    assert strength == 0.1 and penalty.preparation == ("center", "normalize") and penalty.tokens == "without_first"
    assert str(parse_penalty("mean_direction")) == "mean_direction() after normalize"
    for text, words in [("uniformity:beta=4", "PENALTY@STRENGTH"), ("uniformity:beta=4@-1", "positive strength"), ("warmth@1", "`penalty` must be one of"),
                        ("uniformity@1", "uniformity:beta=NUMBER"), ("uniformity:beta=x@1", "a number"), ("uniformity:beta=-1@1", "but in 'uniformity:beta=-1' `beta` must be positive"),
                        ("uniformity:beta=4,beta=5@1", "gives beta twice")]:  # fmt: skip
        with pytest.raises(am.ArgumentError, match=words):
            parse_term(text)


def test_any_penalty_takes_the_flags_that_its_form_shows():
    forms = accepted_penalties().split(", ")
    assert "mean_direction[,centered][,without_first]" in forms
    for form in forms:
        text = form.replace("NUMBER", "0.5").replace("[,centered][,without_first]", ",centered,without_first")
        found = parse_penalty(text)
        assert found.preparation == ("center", "normalize") and found.tokens == "without_first"


def test_the_time_of_the_whole_study_is_told(record):
    runs = record.provenance["runs"]
    steps = float(record.dataset["seconds"].sum()) * 6
    assert record.provenance["workers"] == 1 and runs == 16
    assert steps < record.provenance["seconds"] < 100 * steps


def test_a_recipe_that_does_not_fit_is_refused_before_anything_is_trained(corpus, tmp_path):
    bad = study(corpus, recipes=[parse_recipe("library"), parse_recipe("overlap_profile:first=0.9,last=0.95")])
    with pytest.raises(am.ArgumentError, match=r"of overlap_profile:first=0.9,last=0.95 `profile` must"):
        bad.run(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


# the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def armillary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "write_figures", partial(figures.write_figures, formats=()))

    def ran(*arguments):
        monkeypatch.setattr(sys, "argv", ["armillary", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return ran


SMALL = [
    "--width",
    16,
    "--blocks",
    2,
    "--max-tokens",
    24,
    "--steps",
    6,
    "--every",
    3,
    "--rate",
    0.01,
    "--workers",
    1,
    "--checkpoints",
    "none",
]


def test_the_command_leaves_a_record_and_a_page_with_intervals(armillary, tmp_path):
    code, out, err = armillary("train", *SMALL, "--recipe", "library", "--seeds", 3, "--out", "r")
    assert code == 0, err
    assert "minus baseline" in out and "over 3 seeds" in out
    page = (tmp_path / "r" / "report.html").read_text()
    for words in (
        "Held-out loss through the steps",
        "Geometry through depth",
        "paired by seed",
        "Student",
        "too few to conclude from",
        "no sweep was made",
    ):
        assert words in page, words
    assert (tmp_path / "r").is_dir() and not (tmp_path / "r-checkpoints").exists()


def test_json_is_strict_and_alone(armillary):
    code, out, _ = armillary("train", *SMALL, "--recipe", "library", "--seeds", 2, "--out", "r", "--json")
    found = json.loads(out)
    assert code == 0 and len(found["cells"]) == 2 and len(found["cells"][0]["final_loss"]) == 2
    assert found["minus_baseline"][0]["term"].startswith("0.1 x uniformity")


def test_a_dry_run_says_the_plan_and_writes_nothing(armillary, tmp_path):
    code, out, _ = armillary("train", "--dry-run")
    assert code == 0 and out.startswith("24 runs of 240 steps") and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--preset", "huge"], "`--preset` must be one of quick, full"),
        (["--recipe", "magic"], "`--recipe` must be one of library"),
        (["--term", "uniformity:beta=4"], "`--term` must be PENALTY@STRENGTH"),
        (["--term", "uniformity:beta=4@-0.1"], "positive strength"),
        (["--architecture", "bert"], "`--architecture` must be gpt2 or llama"),
        (["--steps", "7"], "`--every` must divide `--steps`"),
        (["--width", "18", "--heads", "4"], "Give `--heads` 3"),
        (["--rate", "2"], "Give rates such as 0.001 and 0.003"),
        (["--term", "uniformity:beta=-1@0.1"], "`--term` must hold choices in range, but in 'uniformity:beta=-1'"),
        (["--recipe", "identity_plus_noise:identity=2"], "`--recipe` must hold choices that fit, but of identity_plus"),
        (["--recipe", "library", "--recipe", "library"], "library comes twice"),
        (["--when-not-finite", "hope"], "`--when-not-finite` must be 'skip' or 'stop'"),
        (["--held-out", "60"], "lower `--held-out` or `--max-tokens`"),
        (["--separator", "x"], "`--separator` must come with --documents"),
        (["--documents", "nowhere"], "nowhere"),
        (["--checkpoints", "some"], "`--checkpoints` must be first, all or none"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(arguments, words, armillary, tmp_path):
    code, out, err = armillary("train", *SMALL, *arguments, "--out", "r")
    assert code == 2 and out == "" and err.count("\n") == 1 and words in err, err
    assert list(Path(tmp_path).iterdir()) == []


def test_steps_that_were_given_up_are_told_everywhere(armillary, tmp_path):
    heavy = ["--term", "uniformity:beta=4@1e300", "--recipe", "library", "--seeds", 2]
    words = "10 of 12 steps were given up in library + 1e+300 x uniformity(beta=4.0): the loss with this term"
    code, out, _ = armillary("train", *SMALL, *heavy, "--out", "r")
    assert code == 0 and words in out and "Lower its strength" in out
    page = (tmp_path / "r" / "report.html").read_text()
    assert words in page and "steps given up" in page
    _, out, _ = armillary("train", *SMALL, *heavy, "--out", "s", "--json")
    assert [cell["skipped"] for cell in json.loads(out)["cells"]] == [[0, 0], [5, 5]]
    code, out, err = armillary("train", *SMALL, *heavy, "--out", "t", "--when-not-finite", "stop")
    assert code == 4 and "set `--when-not-finite` to" in err and not (tmp_path / "t").exists()
    assert "library with term 1e+300 x uniformity(beta=4.0) after normalize, learning rate 0.01, seed 0:" in err
    assert "at step 1 1e+300 times the penalty" in err


def test_a_text_file_is_trained_on_where_its_separator_is_given(armillary, tmp_path):
    (tmp_path / "one.txt").write_text("\n\n".join(f"text {k}: {'words and more ' * 9}" for k in range(8)))
    file = ["--documents", "one.txt", "--recipe", "library", "--held-out", 2, "--seeds", 1]
    code, _, err = armillary("train", *SMALL, *file, "--out", "r")
    assert code == 2 and "`--separator` must say what stands between" in err
    code, _, err = armillary("train", *SMALL, *file, "--separator", r"\n\n", "--out", "r")
    assert code == 0, err
    assert am.Record.open(tmp_path / "r").study["held_out"] == 2


def test_recipes_and_terms_can_be_listed(armillary, tmp_path):
    assert "uniformity:beta=NUMBER[,centered][,without_first]\n" in armillary("train", "--list-terms")[1]
    assert armillary("train", "--list-recipes")[1].startswith("library\n")
    assert list(tmp_path.iterdir()) == []


def test_a_record_of_training_stands_on_no_page_of_two_and_its_journal_is_no_record(record, armillary, tmp_path):
    code, _, err = armillary("report", record.path, record.path, "--out", "both")
    assert code == 2 and "is a training. Draw it alone" in err
    with Journal.held(tmp_path / "r") as journal:
        journal.begin({}, lambda: Beginning({"kind": "training"}, {}, xarray.Dataset(), {}))
        journal.put("grid-0-0-0.npz", {"loss": np.zeros(2)})
    code, _, err = armillary("report", "r.partial")
    assert code == 2 and "Run the same command again to go on" in err
