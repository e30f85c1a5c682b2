"""default-scheduler: the plain kube-scheduler, for pods that start one by one."""
