"""Training with the geometry in view: where a model starts, what keeps its tokens apart, and what watches them."""
