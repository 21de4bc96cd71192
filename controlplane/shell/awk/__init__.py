"""`awk` of the emulated shell: the language of POSIX."""
