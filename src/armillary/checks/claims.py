"""The claims of the idealization with the status of each, and the checks that stand behind it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CLAIMS", "Claim"]


@dataclass(frozen=True)
class Claim:
    """A sentence about the idealized dynamics.

    Attributes:
        words: What is claimed.
        status: "exact", "exact at uniform weights", "model-specific", "candidate" or "stated elsewhere".
        checks: Names of the checks that would miss if it were false.
    """

    words: str
    status: str
    checks: tuple[str, ...]


CLAIMS = (
    Claim("projecting on the tangent space keeps norms", "exact", ("norms are conserved", "tangency")),
    Claim(
        "dPhi/ds is a sum of squares over Z_i and never negative",
        "model-specific: unit vectors, symmetric scores, values equal keys, one head, no mask, no MLP",
        ("energy rate", "energy never decreases", "energy with tied symmetric matrices"),
    ),
    Claim("two tokens align as c = tanh(s + artanh c0)", "exact at uniform weights", ("tanh law", "merge clock")),
    Claim("two unit vectors have participation rank 2 / (1 + c^2)", "exact", ("participation rank of a pair",)),
    Claim(
        "on the circle the motion is sum_j A_ij sin(phi_j - phi_i)",
        "exact; Kuramoto's model with equal frequencies at uniform weights only",
        ("angular equation", "harmonics on the ring", "Poisson kernel", "Moebius invariants"),
    ),
    Claim(
        "two opposed groups and one aligned group both have participation rank one",
        "exact",
        ("rank one is not consensus",),
    ),
    Claim(
        "many tokens follow a continuity equation",
        "candidate: shown for given densities and times, not the exchange of the limits",
        (
            "continuity equation on the circle",
            "continuity equation on S^2",
            "particles approach the density as T^{-1/2}",
        ),
    ),
    Claim(
        "pure attention networks lose rank",
        "stated elsewhere for a discrete architecture without skip, MLP and norm",
        ("residual to consensus is cubed",),
    ),
)
"""In the order in which they are derived."""
