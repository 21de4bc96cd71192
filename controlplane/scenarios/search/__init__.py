"""Many runs: exploring, replaying, forking, shrinking, and telling what was found."""
