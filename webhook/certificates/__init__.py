"""Certificates: X.509 values, certificate files, and the state of the self-managed certificates of a cluster.

The reconciler writes them; this package only reads and decides.
"""
