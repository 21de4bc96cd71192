"""What Kueue's reconcilers decide: workloads, cluster queues, local queues, cohorts, flavors, checks."""
