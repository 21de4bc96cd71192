"""node.k8s.io: runtime classes."""
