"""Expressions of CEL in stages, metrics and usages, by the rules of sigs.k8s.io/kwok."""
