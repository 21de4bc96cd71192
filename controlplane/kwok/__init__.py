"""KWOK: objects that stages move through their lives, by the rules of sigs.k8s.io/kwok."""
