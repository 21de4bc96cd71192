"""Topology aware placement: the tree of domains, their free capacity, and the choice among them."""
