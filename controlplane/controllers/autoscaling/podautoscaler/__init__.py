"""Horizontal pod autoscaling: as many pods as the metrics ask for."""
