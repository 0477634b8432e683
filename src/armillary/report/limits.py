"""What the numbers do not show: the fine print, said of this record."""

from __future__ import annotations

from armillary.report.markup import Markup, element
from armillary.report.words import Facts

__all__ = ["limits"]


def limits(facts: Facts) -> Markup:
    """The fine print as a list, with what this record makes of each point."""
    source = facts.source
    genre = str(source.get("genre") or source.get("source") or "one source")
    points = [
        (
            "The sphere is an idealization.",
            "Normalized rows live on a sphere because we divide by their length; the stream itself does not stay "
            "there. The radial parts and norms above show by how much each sublayer leaves it. A law derived for "
            "motion on a sphere calibrates an instrument; this decoder owes it nothing.",
        ),
        (
            "An overlap histogram is not the overlap distribution of a spin glass.",
            "It counts the pairs of tokens at each overlap, in one basis, in one trained model. Reading it as a "
            "thermodynamic distribution would need an ensemble and an identification of its members, and neither is "
            "here.",
        ),
        (
            "A group pattern in finitely many tokens is not a phase.",
            f"Groups were formed among {max(facts.tokens - 1, 0)} tokens by a declared distance and threshold. The "
            "sweep shows what another threshold would give; no limit of many tokens was taken.",
        ),
        (
            "Low rank is not consensus, and alignment is not clustering.",
            "Two opposed groups have rank one and no mean direction; one aligned group has rank one and a unit "
            "mean. That is why overlap, mean direction, ranks and groups stand side by side.",
        ),
        (
            "An offset can look like structure.",
            "Uncentered overlaps contain a direction that all tokens share. Where centering, subtracting the corpus "
            "mean or leaving out a few coordinates removes the overlap, the overlap was mostly that.",
        ),
        (
            "One genre of text.",
            f"The documents are: {genre}. Resampling them tells how the numbers vary over texts of that kind, and "
            "nothing about other kinds.",
        ),
        (
            "Documents are the unit, not token pairs.",
            "Pairs within a document depend on one another; counting them as independent would make every interval "
            "far too narrow. Nor do the intervals contain the choice of model, layer or definition.",
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
    points.append(
        (
            "Removing a part is not explaining it.",
            "A decoder without one of its parts meets inputs it was never trained on; its loss, shown above, says "
            "how foreign they are. The difference is a fact about the pair of decoders.",
        )
    )
    return element("ul", *(element("li", element("strong", head), " ", text) for head, text in points), class_="limits")
