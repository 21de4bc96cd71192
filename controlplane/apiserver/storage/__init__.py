"""Where objects are: the multi-version store, the store in a file, and the watch caches over them."""
