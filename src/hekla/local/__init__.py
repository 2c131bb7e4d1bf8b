"""Composition: a whole cluster on one machine."""
