"""Workloads that aim at no race, one for each component."""
