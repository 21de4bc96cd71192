"""Kueue: job queueing with quotas, cohorts, preemption and topology, version 0.20 (commit ff69552e)."""
