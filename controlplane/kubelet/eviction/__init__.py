"""Eviction on node pressure: what is used, which thresholds are met, and which pod goes.

Upstream: pkg/kubelet/eviction.
"""
