"""Re-parametrizations of a decoder that leave its function unchanged, and the proof that each one does."""
