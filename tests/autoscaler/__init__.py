"""Tests of the Cluster Autoscaler's decisions."""
