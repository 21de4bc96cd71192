"""Field ownership: managedFields on writes, and server-side apply.

Upstream: apimachinery pkg/util/managedfields and sigs.k8s.io/structured-merge-diff.
"""
