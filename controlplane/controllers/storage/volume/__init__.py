"""Binds claims and volumes, and protects both while they are used. Upstream: pkg/controller/volume."""
