"""Kueue's metrics: counters of events, and gauges that are read at each scrape.

Follows `pkg/metrics`.
"""
