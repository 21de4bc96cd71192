"""A Kubernetes control plane made of actors."""

__version__ = "0.1.0"
