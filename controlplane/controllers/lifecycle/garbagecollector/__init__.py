"""Deletes objects whose owners are gone. Upstream: pkg/controller/garbagecollector."""
