"""ClusterRoles that are put together of others."""
