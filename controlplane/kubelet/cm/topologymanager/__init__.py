"""Agreement on NUMA nodes between those who hand out resources. Upstream: pkg/kubelet/cm/topologymanager."""
