"""Tests of the cloud that the autoscaler is tried with."""
