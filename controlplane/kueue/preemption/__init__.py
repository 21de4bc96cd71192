"""Which admitted workloads have to go for another."""
