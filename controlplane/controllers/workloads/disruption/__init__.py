"""Says how many pods of each PodDisruptionBudget may be evicted. Upstream: pkg/controller/disruption."""
