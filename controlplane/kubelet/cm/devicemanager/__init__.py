"""Devices of device plugins on a node. Upstream: pkg/kubelet/cm/devicemanager."""
