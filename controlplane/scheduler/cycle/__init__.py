"""One attempt to schedule a pod: searching, scoring, assuming, binding, failing, explaining."""
