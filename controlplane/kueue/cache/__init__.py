"""The scheduler's cache: cohorts, quota, workloads that hold quota, and snapshots of all that."""
