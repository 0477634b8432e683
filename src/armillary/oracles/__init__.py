"""What must come out: closed forms and quadratures that judge the simulator and never import it."""

from armillary.oracles import circle, layers, linear, meanfield, noise, overlap, sampling, wide_limit

__all__ = ["circle", "layers", "linear", "meanfield", "noise", "overlap", "sampling", "wide_limit"]
