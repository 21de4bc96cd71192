"""metrics.k8s.io: usage."""
