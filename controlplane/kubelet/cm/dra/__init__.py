"""Devices of claims on a node: what is prepared for which pods. Upstream: pkg/kubelet/cm/dra."""
