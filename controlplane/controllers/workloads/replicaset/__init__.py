"""Keeps as many pods as each ReplicaSet wants. Upstream: pkg/controller/replicaset."""
