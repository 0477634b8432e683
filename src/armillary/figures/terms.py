"""What stored names are called in words: measurements, preparations, token sets and taps."""

from __future__ import annotations

__all__ = [
    "MEASUREMENTS",
    "PREPARATIONS",
    "RANKS",
    "TAPS",
    "TOKENS",
    "measurement_words",
    "preparation_words",
    "tap_words",
]

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
    "stream_norm_mean": "mean stream norm",
    "stream_norm_spread": "spread of the stream norm",
    "stream_norm_median": "median stream norm",
    "stream_norm_first": "norm of the first token",
    "massive_tokens": "massive tokens",
    "zero_rows": "zero rows",
    "loss": "held-out loss",
}

RANKS = (
    "participation_rank",
    "entropy_rank",
    "squared_entropy_rank",
    "stable_rank",
    "nuclear_over_spectral",
    "algebraic_rank",
)

PREPARATIONS = {
    "as given": "rows as given",
    "center": "rows centered",
    "normalize": "rows normalized",
    "center, normalize": "rows centered, then normalized",
    "corpus mean, normalize": "corpus mean subtracted, then normalized",
    "without rogue coordinates, normalize": "rogue coordinates removed, then normalized",
}

TOKENS = {
    "all": "all tokens",
    "without_first": "without the first token",
    "without_first_and_massive": "without the first and massive tokens",
}

TAPS = {
    "block": "after the block",
    "mid": "after attention",
    "block_read": "after the block, as read by the next sublayer",
    "mid_read": "after attention, as read by the MLP",
}


def measurement_words(name: str) -> str:
    """A measurement in words, its parameters left out; an unknown one keeps its name, without underscores."""
    bare = name.partition("(")[0]
    return MEASUREMENTS.get(bare, bare.replace("_", " "))


def preparation_words(steps: str) -> str:
    """A preparation in words; an unknown one keeps its steps."""
    return PREPARATIONS.get(steps, f"rows prepared: {steps}")


def tap_words(tap: str, layer: int, layers: int) -> str:
    """What a tap at a layer is called: "embedding", "block", "mid", "final" ..."""
    if layer == 0 and tap in ("block", "block_read"):
        return "embedding" if tap == "block" else "embedding_read"
    if tap == "block_read" and layer == layers:
        return "final"
    return tap
