"""What Kueue reads from a Workload and writes into its status."""
