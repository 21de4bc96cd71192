"""The emulated cloud: groups of machines that grow, shrink, fail and get lost, and the file that describes them."""
