"""How a kubelet lives."""
