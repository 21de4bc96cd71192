"""What pods on fake nodes lead to on the machine: files, programs and addresses, for the clients of a served cluster.

Nothing of it enters the world, so nothing of it is recorded.
"""
