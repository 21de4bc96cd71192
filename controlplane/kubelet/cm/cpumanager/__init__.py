"""Which CPUs belong to which container. Upstream: pkg/kubelet/cm/cpumanager."""
