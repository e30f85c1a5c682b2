"""Explain workloads, without I/O: which scheduler could run one, which gangs it has, and whether they can
ever start.
"""
