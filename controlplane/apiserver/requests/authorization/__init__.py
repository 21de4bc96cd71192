"""Authorization: the rules (`rbac`) and the default roles of a cluster (`policy`)."""
