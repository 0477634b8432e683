"""What stored names are called in words: conditions, measurements, preparations, token sets and taps."""

from __future__ import annotations

__all__ = [
    "CALIBRATED",
    "LONGEST_STEP",
    "MEASUREMENTS",
    "PREPARATIONS",
    "RANKS",
    "TAPS",
    "TOKENS",
    "condition_label",
    "condition_name",
    "isotropic_words",
    "layer_words",
    "measurement_name",
    "measurement_words",
    "preparation_words",
]

CALIBRATED = ("step_length", "angle_wanted", "angle_realized")
"""What is found of each sublayer of a rung that follows the decoder's pace."""

LONGEST_STEP = 100.0
"""Of the ladder, over the length of a unit row: what was there before is a hundredth of what is there after."""

NEAR_ZERO = 1e-3

MEASUREMENTS = {
    "mean_overlap": "mean overlap",
    "squared_mean_direction": "squared mean direction",
    "smallest_overlap": "smallest overlap",
    "participation_rank": "participation rank",
    "algebraic_rank": "algebraic rank",
    "entropy_rank": "entropy rank of s",
    "squared_entropy_rank": "entropy rank of s²",
    "stable_rank": "stable rank",
    "nuclear_over_spectral": "nuclear over spectral norm",
    "exponential_overlap": "mean exponential overlap",
    "cluster_count": "number of groups",
    "clustering_order_parameter": "clustering order parameter",
    "variance_components": "components to 95 % of the variance",
    "population_participation_rank": "participation rank of the population",
    "population_participation_rank_about_zero": "participation rank of the population, about zero",
    "both_ways_participation_rank": "participation rank of rows and columns of a population",
    "isotropy_score": "isotropy score",
    "uniformity": "uniformity",
    "intrinsic_dimension": "intrinsic dimension, two neighbors",
    "duplicate_rows": "repeated rows",
    "linear_cka_to_previous": "linear CKA with the layer before",
    "linear_cka_to_embedding": "linear CKA with the embedding",
    "neighbor_overlap_to_previous": "neighbors kept from the layer before",
    "neighbor_overlap_to_embedding": "neighbors kept from the embedding",
    "largest_coordinate_share": "share of the largest coordinate",
    "coordinate_kurtosis": "kurtosis of the coordinates",
    "stream_norm_mean": "mean stream norm",
    "stream_norm_spread": "spread of the stream norm",
    "stream_norm_median": "median stream norm",
    "stream_norm_first": "norm of the first token",
    "massive_tokens": "massive tokens",
    "zero_rows": "zero rows",
    "loss": "loss on these documents",
    "noise_share": "share of tokens in no group",
    "attention_effective_beta": "effective beta of attention",
    "attention_overlap_slope": "slope of attention against overlap",
    "attention_entropy": "row entropy of attention",
    "attention_relative_entropy": "row entropy of attention over its ceiling",
    "attention_first_mass": "attention on the first token",
    "attention_largest_mass_elsewhere": "largest attention on a later token",
    "attention_sink_mass": "attention on no token",
    "attention_distance": "distance that attention looks back",
    "attention_antisymmetric_share": "antisymmetric share of attention",
    "attention_participation_rank": "participation rank of attention maps",
    "group_persisting_share": "tokens that stay with their group",
    "group_agreement": "agreement of groups with the layer before",
}

RANKS = (
    "participation_rank",
    "entropy_rank",
    "squared_entropy_rank",
    "stable_rank",
    "nuclear_over_spectral",
    "algebraic_rank",
    "variance_components",
)

PREPARATIONS = {
    "as given": "rows as given",
    "center": "rows centered",
    "normalize": "rows normalized",
    "center, normalize": "rows centered, then normalized",
    "normalize, center": "rows normalized, then centered",
    "corpus mean, normalize": "corpus mean subtracted, then normalized",
    "without rogue coordinates, normalize": "rogue coordinates removed, then normalized",
}

TOKENS = {
    "all": "all tokens",
    "without_first": "without the first token",
    "without_first_and_massive": "without the first and massive tokens",
}

TAPS = {
    "block": "residual, after the block",
    "block_read": "as the next sublayer reads it",
    "mid": "residual, after attention",
    "mid_read": "as the MLP reads it",
}


def condition_label(name: str) -> str:
    """The condition in words, from its name."""
    head, _, rest = name.partition("-")
    if name == "trained":
        return "trained"
    if name == "captured":
        return "captured elsewhere"
    if head == "initial":
        recipe, _, seed = rest.rpartition("-seed")
        spread = recipe if recipe in ("released", "library") else f"spread {recipe}"
        return f"initial ({spread}, seed {seed})"
    part, _, where = rest.partition("-")
    words = {"mlp": "MLP", "attention": "attention", "positions": "positions", "head": "head"}.get(part, part)
    if part == "head":
        layer, _, number = where.partition("-")
        return f"without head {number} of block {layer}"
    return f"without {words}" + (f", blocks {where.replace('-', '–')}" if where else "")


def condition_name(text: str) -> str:
    """A condition's name in a record, from that name or from its short form with colons; other text stays as it is.

    Args:
        text: "initial:library:0" for "initial-library-seed0", "ablated:head:16:0" for "ablated-head-16-0", and so on.
    """
    kind, *rest = text.strip().split(":")
    if kind == "initial" and len(rest) == 2:
        recipe, seed = rest
        try:
            return f"initial-{recipe if recipe in ('released', 'library') else repr(float(recipe))}-seed{seed}"
        except ValueError:
            return text
    return "-".join([kind, *rest]) if rest else text


def isotropic_words(value: float) -> str:
    """The value of an isotropic cloud to three digits; one that only a few random clouds keep from zero is about 0."""
    return "about 0" if abs(value) < NEAR_ZERO else f"{value:.3g}".replace("-", "−")


def layer_words(layer: int) -> str:
    """A layer in words: "embedding" or "block 5"."""
    return "embedding" if layer == 0 else f"block {layer}"


def measurement_name(text: str) -> tuple[str, str]:
    """Name and preparation of a measurement as the study writes it: "cluster_count(...) | center, normalize"."""
    name, _, preparation = text.rpartition(" | ") if " | " in text else (text, "", "")
    return name.partition("(")[0], preparation


def measurement_words(name: str) -> str:
    """A measurement in words, its parameters left out; an unknown one keeps its name, without underscores."""
    bare = name.partition("(")[0]
    return MEASUREMENTS.get(bare, bare.replace("_", " "))


def preparation_words(steps: str) -> str:
    """A preparation in words; an unknown one keeps its steps."""
    return PREPARATIONS.get(steps, f"rows prepared: {steps}")
