"""Who may do what: the rules (`rbac`) and what a cluster starts with (`policy`)."""
