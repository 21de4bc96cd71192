"""Rolls each Deployment out over ReplicaSets. Upstream: pkg/controller/deployment."""
