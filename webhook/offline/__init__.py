"""Manifests without a cluster and without I/O: judge them, report the findings, and translate them to gang objects."""
