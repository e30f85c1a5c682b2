"""default-scheduler: kube-scheduler, with gangs of the Workload API or without."""
