"""Controllers that begin and end objects: namespaces, owners, nodes, quotas, accounts."""
