"""Consequences of topology aware admission: pods are released to their domains, failed nodes are noticed."""
