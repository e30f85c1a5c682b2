"""Certificates: X.509 as values, files of certificates, and what is known of the self-managed ones in a cluster.

The reconciler writes them; everything here reads or decides.
"""
