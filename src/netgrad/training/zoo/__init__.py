"""Architectures from the literature, written into a model with `brew`."""
