"""Loops of the kubelet."""
