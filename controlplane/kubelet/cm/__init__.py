"""What a node gives its pods: CPUs, memory, and their alignment. Upstream: pkg/kubelet/cm."""
