"""Fields that Kueue reads from a Workload, and its status."""
