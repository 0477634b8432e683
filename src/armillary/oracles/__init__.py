"""What must come out: closed forms and quadratures that judge the simulator and never import it."""

from armillary.oracles import circle, gaussian_scores, layers, linear, meanfield, noise, overlap, sampling, wide_limit

__all__ = ["circle", "gaussian_scores", "layers", "linear", "meanfield", "noise", "overlap", "sampling", "wide_limit"]
