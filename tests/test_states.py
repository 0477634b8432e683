"""States captured elsewhere: numbers as the laboratory's own on the same states, and each fault of a file named."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from armillary import cli
from armillary.errors import ArgumentError, NumericalError, UnsoundError
from armillary.models.capture import capture
from armillary.models.conditions import Trained
from armillary.models.documents import Documents
from armillary.models.states import AXES, States
from armillary.records.record import Record
from armillary.report import write_report
from armillary.studies.captured import CapturedStates
from armillary.studies.laboratory import Laboratory
from armillary.studies.plan import Plan, default_measurements
from tiny import tiny_decoder, tiny_ids

TITLES = [f"document {k}" for k in range(1, 5)]


@pytest.fixture(scope="module")
def held() -> torch.Tensor:
    """States of four documents at layers 0..4, 20 tokens, width 24."""
    return capture(tiny_decoder(), tiny_ids(documents=4, tokens=20)).states


def written(states: torch.Tensor, path: Path, **more: np.ndarray) -> Path:
    """The states, and arrays beside them, in the format that the name asks for."""
    if path.suffix == ".npy":
        np.save(path, states.numpy())
    elif path.suffix == ".npz":
        np.savez(path, states=states.numpy(), **more)
    else:
        arrays = {"states": states.contiguous()} | {
            name: torch.from_numpy(np.asarray(one)) for name, one in more.items()
        }
        if path.suffix == ".pt":
            torch.save(arrays if more else states, path)
        else:
            from safetensors.torch import save_file

            save_file(arrays, path)
    return path


def test_numbers_are_those_of_the_laboratory_on_the_same_states(held, tmp_path):
    documents = Documents.from_token_ids(tiny_ids(documents=4, tokens=20), TITLES)
    measurements = default_measurements(calibrated=False)
    plan = Plan(attention=())  # attention is taken in an eager pass, whose last bits are others
    own = Laboratory(tiny_decoder(), documents, [Trained()], measurements, plan=plan, resamples=400)
    own = own.run(tmp_path / "own").dataset
    study = CapturedStates(States.of(held, axes=AXES), resamples=400)
    found = study.run(tmp_path / "captured").dataset
    for name in found.data_vars:
        mine, theirs = found[name], own[name]
        if "tap" in mine.dims:
            mine, theirs = mine.sel(tap="block"), theirs.sel(tap="block")
            assert found[name].sel(tap=["mid", "block_read", "mid_read"]).isnull().all()
        if name in ("statement_value", "statement_floor"):
            theirs = theirs.sel(transformation=mine["transformation"])
            assert len(mine["transformation"]) == len(own["transformation"]) - 1  # no norm, no gain
        mine = mine.assign_coords(condition=["trained"]) if "condition" in mine.dims else mine
        xr.testing.assert_equal(mine.drop_attrs(), theirs.drop_attrs())
    assert "loss" not in found and "update_norm" not in found


def test_the_record_and_its_page_say_what_is_absent(held, tmp_path):
    record = CapturedStates(States.of(held, axes=AXES), resamples=400).run(tmp_path / "record")
    assert record.study["kind"] == "captured states" and "attention" in record.study["absent"]
    assert record.dataset["condition"].values.tolist() == ["captured"]
    page = write_report(record, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "States were captured elsewhere, so nothing could be proved of them. Absent: attention" in page
    assert "Whether the last layer is the stream after its block or the output of the final norm is not known" in page
    assert "In the condition “captured elsewhere”" in page and "Conditions: captured elsewhere." in page
    assert "quantized" not in record.methods() and "None…" not in record.methods() and "?" not in record.methods()


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors", "pt"])
def test_every_format_gives_the_same_states_in_whichever_order_their_axes_lie(ending, held, tmp_path):
    order = ("layers", "documents", "width", "tokens")
    turned = held.permute([AXES.index(name) for name in order])
    states = States.from_file(written(turned.contiguous(), tmp_path / f"states.{ending}"), axes=order)
    assert torch.equal(states.states, held) and states.layers == (0, 1, 2, 3, 4) and states.titles == tuple(TITLES)
    assert "axes layers,documents,width,tokens" in states.source and len(states) == 4 and states.tokens == 20


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_takes_no_part_wherever_it_stands(side, held, tmp_path):
    padded, mask = torch.zeros(4, 5, 26, 24), torch.zeros(4, 26)
    for document, length in enumerate((12, 20, 16, 9)):
        where = slice(26 - length, 26) if side == "left" else slice(0, length)
        padded[document][:, where], mask[document, where] = held[document][:, :length], 1
    file = written(padded, tmp_path / "states.npz", attention_mask=mask.numpy())
    states = States.from_file(file, axes=AXES)
    assert torch.equal(states.states, held[:, :, :9])
    longer = States.from_file(file, axes=AXES, tokens=12)
    assert torch.equal(longer.states, held[:3, :, :12])
    assert longer.skipped == (("document 4", "9 real tokens, fewer than 12"),)
    with pytest.raises(ArgumentError, match="zero at every layer, as padding is"):
        States.of(padded, axes=AXES)
    assert States.of(padded, axes=AXES, mask=mask).tokens == 9


def test_layers_are_those_in_the_file_or_those_given(held, tmp_path):
    file = written(held[:, ::2], tmp_path / "states.npz", layers=np.array([0, 2, 4]))
    assert States.from_file(file, axes=AXES).layers == (0, 2, 4)
    assert States.from_file(file, axes=AXES, layers=[1, 3, 5]).layers == (1, 3, 5)
    for wrong in ([0, 1], [2, 1, 3], [-1, 0, 1]):
        with pytest.raises(ArgumentError, match="3 increasing numbers from 0 up"):
            States.from_file(file, axes=AXES, layers=wrong)


def test_half_precision_is_kept_and_accumulated_in_more(held, tmp_path):
    file = written(held.bfloat16(), tmp_path / "states.safetensors")
    record = CapturedStates(States.from_file(file, axes=AXES), resamples=400).run(tmp_path / "record")
    truth = CapturedStates(States.of(held.bfloat16().double(), axes=AXES), resamples=400).run(tmp_path / "truth")
    assert record.study["dtype"] == "bfloat16"
    overlaps = [one.dataset["mean_overlap"].sel(tap="block", preparation="normalize").values for one in (record, truth)]
    np.testing.assert_allclose(*overlaps, atol=1e-12)


FAULTS = {
    "axes": (
        lambda s: {"axes": ("documents", "layers", "tokens")},
        "`axes` must name documents, layers, tokens, width",
    ),
    "three axes": (lambda s: {"states": s[0]}, r"`states` must have four axes .* but has shape \[5, 20, 24\]"),
    "integers": (lambda s: {"states": s.long()}, "must be floating point, but is int64"),
    "nothing": (lambda s: {"states": s[:0]}, "at least one of everything"),
    "mask": (lambda s: {"mask": torch.ones(20, 4)}, r"here \[4, 20\], but has shape \[20, 4\]"),
    "mask of halves": (lambda s: {"mask": torch.full((4, 20), 0.5)}, "1 at real tokens and 0 at padding"),
    "titles": (lambda s: {"titles": ["a", "b", "b", "c"]}, "name 4 documents, each once"),
    "short": (lambda s: {"tokens": 3}, "`tokens` must be at least 4, but is 3"),
    "long": (lambda s: {"tokens": 21}, "`tokens` must be at most 20, the length of the longest document"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_is_named(fault, held):
    changed, said = FAULTS[fault]
    with pytest.raises(ArgumentError, match=said):
        States.of(**{"states": held, "axes": AXES, **changed(held)})


@pytest.mark.parametrize(("value", "kind"), [(float("nan"), "NaN"), (float("inf"), "infinite")])
def test_a_state_that_is_not_finite_is_named_by_layer_document_and_token_and_a_mask_leaves_it_out(value, kind, held):
    broken = held.clone()
    broken[2, 3, 19, 5] = value
    with pytest.raises(NumericalError, match=f"coordinate is {kind} at layer 3, document 'document 3', token 19"):
        States.of(broken, axes=AXES)
    mask = torch.ones(4, 20)
    mask[2, 19] = 0
    assert States.of(broken, axes=AXES, mask=mask).tokens == 19


def test_a_layer_of_zeros_is_named(held):
    broken = held.clone()
    broken[1, 2] = 0
    with pytest.raises(ArgumentError, match="at layer 2 all of document 'document 2' is zero"):
        States.of(broken, axes=AXES)


def test_files_that_are_no_arrays_get_one_sentence_and_nothing_in_them_is_run(held, tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    torch.save({"states": Trap()}, tmp_path / "trap.pt")
    np.save(tmp_path / "trap.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    (tmp_path / "cut.safetensors").write_bytes(written(held, tmp_path / "a.safetensors").read_bytes()[:1000])
    for name in ("trap.pt", "trap.npy", "cut.safetensors"):
        with pytest.raises(ArgumentError, match="a whole file of arrays and nothing else") as caught:
            States.from_file(tmp_path / name, axes=AXES)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "sprung").exists()
    with pytest.raises(ArgumentError, match="does not exist"):
        States.from_file(tmp_path / "nowhere.npz", axes=AXES)
    (tmp_path / "states.h5").write_bytes(b"")
    with pytest.raises(ArgumentError, match="is of another kind"):
        States.from_file(tmp_path / "states.h5", axes=AXES)


def test_two_arrays_of_four_axes_need_a_name(held, tmp_path):
    file = written(held, tmp_path / "states.npz", other=held.numpy())
    with pytest.raises(
        ArgumentError, match=r"one array with four axes, but states.npz holds states \[4, 5, 20, 24\], other"
    ):
        States.from_file(file, axes=AXES)
    assert "other of states.npz" in States.from_file(file, axes=AXES, array="other").source
    with pytest.raises(ArgumentError, match="an array 'third'"):
        States.from_file(file, axes=AXES, array="third")


def test_one_document_gives_no_interval(held):
    with pytest.raises(UnsoundError, match="at least two documents"):
        CapturedStates(States.of(held[:1], axes=AXES))


def test_a_document_that_comes_twice_is_refused_where_an_interval_would_count_it(held):
    twice = States.of(held[[0, 1, 0]], axes=AXES)
    with pytest.raises(UnsoundError, match="'document 3' has the states of 'document 1', and an interval would count"):
        CapturedStates(twice)
    CapturedStates(twice.first(2))


def test_layers_of_a_file_that_are_no_whole_numbers_are_refused(held, tmp_path):
    for name, layers in (("nan", [0, float("nan"), 2, 3, 4]), ("half", [0, 0.5, 1, 2, 3]), ("text", list("abcde"))):
        file = tmp_path / f"{name}.npz"
        np.savez(file, states=held.numpy(), layers=layers)
        with pytest.raises(ArgumentError, match=r"must be whole numbers|'layers' holds no numbers"):
            States.from_file(file, axes=AXES)


def test_the_command_measures_a_file_of_states_and_names_what_does_not_go_with_it(held, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(held, Path("states.npz"))

    def lab(*options: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["armillary", "lab", "--states", "states.npz", *options])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), capsys.readouterr().err

    assert lab() == (2, "armillary: Argument `--axes` must say what the axes of --states are, but was not given. Write "
                        "--axes documents,layers,tokens,width in the order in which they lie.\n")  # fmt: skip
    declared = ("--axes", "documents,layers,tokens,width")
    code, said = lab(*declared, "--model", "x")
    assert code == 2 and "Argument `--model` must be left out with --states" in said
    for other in ("--memory-limit=1GiB", "--backend=processes", "--dtype=float16", "--threads=1", "--dry-run"):
        code, said = lab(*declared, other)
        assert code == 2 and f"`{other.partition('=')[0]}` must be left out with --states" in said
    code, said = lab(*declared, "--layers", "0,3-4")
    assert code == 2 and "Argument `--layers` must give 5 increasing numbers" in said
    assert not Path("record").exists()
    code, said = lab(
        *declared, "--layers", "0,4,8,12,16", "--max-tokens", "12", "--max-documents", "3", "--out", "record"
    )
    assert code == 0, said
    record = Record.open("record")
    assert record.study["layers"] == [0, 4, 8, 12, 16] and record.dataset.sizes["document"] == 3
    assert record.dataset.attrs["tokens_per_document"] == 12 and Path("record/report.html").exists()


def test_the_hash_is_that_of_the_documents_that_are_kept(held):
    every = States.of(held, axes=AXES)
    assert every.first(2).digest == States.of(held[:2], axes=AXES).digest != every.digest
