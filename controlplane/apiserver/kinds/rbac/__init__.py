"""rbac.authorization.k8s.io: roles and their bindings."""
