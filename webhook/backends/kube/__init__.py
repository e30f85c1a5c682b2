"""default-scheduler: kube-scheduler, with or without gangs of the Workload API."""
