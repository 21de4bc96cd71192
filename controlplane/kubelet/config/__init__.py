"""The configuration file of a kubelet. Upstream: pkg/kubelet/apis/config."""
