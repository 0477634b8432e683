"""What the numbers do not show: the fine print, said of this record."""

from __future__ import annotations

from armillary.report.markup import Markup, element
from armillary.report.words import Facts

__all__ = ["limits"]


def limits(*records: Facts) -> Markup:
    """The fine print as a list, with what each record makes of every point; a point of several is made once.

    Args:
        records: what is known of each.
    """
    every = dict.fromkeys(point for facts in records for point in _points(facts))
    return element("ul", *(element("li", element("strong", head), " ", text) for head, text in every), class_="limits")


def _points(facts: Facts) -> list[tuple[str, str]]:
    source = facts.source
    genre = str(source.get("genre") or source.get("source") or "texts from one source").rstrip(".")
    one = "One genre of text." if "one genre" in genre else "These texts only."
    points = [
        (
            "The sphere is an idealization.",
            "Normalized rows live on a sphere because we divide by their length; the stream itself does not stay "
            "there. The radial parts and norms above show by how much each sublayer leaves it. A law derived for "
            "motion on a sphere can test the instrument. It does not say what this decoder does.",
        ),
        (
            "An overlap histogram is not the overlap distribution of a spin glass.",
            "It counts the pairs of tokens at each overlap, in one basis, in one model. Reading it as a thermodynamic "
            "distribution would need an ensemble, and a way to tell its members apart. Neither is here.",
        ),
        (
            "A group pattern in finitely many tokens is not a phase.",
            f"Groups are formed among {max(facts.tokens - 1, 0)} tokens by a declared distance and threshold. The "
            "sweep shows what another threshold would give. No limit of many tokens was taken.",
        ),
        (
            "Low rank is not consensus, and alignment is not clustering.",
            "Two opposed groups have a participation rank of one and no mean direction; one aligned group has the same "
            "rank and a unit mean. That is why overlap, mean direction, ranks and groups stand side by side.",
        ),
        (
            "An offset can look like structure.",
            "Uncentered overlaps contain a direction that all tokens share. Where centering, subtracting the corpus "
            "mean or leaving out a few coordinates takes the overlap away, it was mostly that direction.",
        ),
        (
            one,
            f"The documents are {genre}. Resampling them tells how the numbers vary over texts of that kind, and "
            "nothing about other kinds. Nor does anything here show that they lie outside the training data.",
        ),
        (
            "Documents are the unit, not token pairs.",
            "Pairs within a document depend on one another; counting them as independent would make every interval "
            "far too narrow. The intervals do not cover the choice of model, layer or definition either.",
        ),
        (
            "Each interval stands for itself.",
            "This page holds many. Each misses as often as its level says, so among many some do, and none is widened "
            "for being one of many. A largest or smallest number that was picked out by looking lies on the far side.",
        ),
    ]
    if facts.initial:
        points.append(
            (
                f"{facts.seeds.capitalize()}.",
                "Every initial condition is a single draw of its recipe. Its interval covers documents, not draws; "
                "another seed or another recipe may give other numbers.",
            )
        )
    if facts.quantization:
        points.append(
            (
                f"The model is {facts.quantization}.",
                "What was measured is the quantized decoder. Nothing here says how far its geometry is from that of "
                "the unquantized weights.",
            )
        )
    if facts.ablated:
        points.append(
            (
                "Removing a part is not explaining it.",
                "What is left of the decoder meets states it was never trained on; its loss, shown above, says how "
                "far it is from the whole. A difference is a fact about two decoders, not about what the part does.",
            )
        )
    return points
