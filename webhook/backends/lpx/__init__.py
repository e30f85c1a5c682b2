"""lpx-scheduler: it is named on the pods, and takes no topology."""
