"""StatefulSets: pods with a name, a place in an order, and claims of their own."""
