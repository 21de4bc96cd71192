"""Resource managers of a node: CPUs, memory, and their alignment. Upstream: pkg/kubelet/cm."""
