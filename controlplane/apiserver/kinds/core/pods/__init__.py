"""Pods: defaults, rules, permitted changes, warnings, the row, and the strategy in `kind`."""
