"""Requests for capacity (ProvisioningRequest, autoscaling.x-k8s.io): their kind, their pods, their conditions."""
