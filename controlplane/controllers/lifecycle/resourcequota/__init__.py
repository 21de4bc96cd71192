"""Counts what namespaces use of their quotas. Upstream: pkg/controller/resourcequota."""
