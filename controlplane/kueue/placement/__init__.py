"""What follows from topology aware admission: pods are let go to their domains, failed nodes are noticed."""
