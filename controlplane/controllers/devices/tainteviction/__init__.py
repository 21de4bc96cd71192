"""Eviction of pods from tainted devices."""
