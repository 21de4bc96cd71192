"""Defaults that upstream computes in code (pkg/apis/*/v1/defaults.go), on canonical trees.

Every function answers the tree it was given when nothing is missing.
"""
