"""Exclusive CPUs of containers. Upstream: pkg/kubelet/cm/cpumanager."""
