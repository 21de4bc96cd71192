"""Which NUMA nodes give memory to which container. Upstream: pkg/kubelet/cm/memorymanager."""
