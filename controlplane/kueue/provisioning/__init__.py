"""The admission check of ProvisioningRequests: capacity is asked for before a Workload is admitted."""
