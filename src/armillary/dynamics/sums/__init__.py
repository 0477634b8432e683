"""Sums over all pairs of tokens: one question, several ways to evaluate it, each with its error and its cost."""
