"""Reading and explaining what a run recorded. Needs nothing of the control plane but its values."""
