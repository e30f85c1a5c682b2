"""lpx-scheduler: the pods name it, and it supports no topology."""
