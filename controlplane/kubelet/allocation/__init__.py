"""Resources allocated to each pod, and resizes that wait. Upstream: pkg/kubelet/allocation."""
