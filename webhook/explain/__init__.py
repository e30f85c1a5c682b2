"""Explanations, pure: which scheduler could run a workload, which gangs it has, and whether they can ever start."""
