"""networking.k8s.io: ingresses, network policies, ranges of services and their addresses."""
