"""NUMA nodes that give memory to containers. Upstream: pkg/kubelet/cm/memorymanager."""
