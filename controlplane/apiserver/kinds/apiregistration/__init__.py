"""apiregistration.k8s.io: API services."""
