"""Alignment of resources on NUMA nodes between hint providers. Upstream: pkg/kubelet/cm/topologymanager."""
