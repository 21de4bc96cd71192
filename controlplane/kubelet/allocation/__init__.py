"""What each pod was promised, and resizes that wait. Upstream: pkg/kubelet/allocation."""
