"""Workloads, invariants and exploration of a cluster; may reach into all components."""
