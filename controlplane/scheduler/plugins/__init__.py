"""In-tree plugins, one file each."""
