"""Decisions of Kueue's reconcilers: workloads, cluster queues, local queues, cohorts, flavors, checks."""
