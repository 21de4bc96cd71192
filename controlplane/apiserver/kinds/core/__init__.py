"""The core group; a file per kind, a package for pods."""
