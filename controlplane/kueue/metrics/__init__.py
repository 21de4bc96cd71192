"""Kueue's metrics: what happened is counted, what is there is read when somebody asks.

Follows `pkg/metrics`.
"""
