"""Manifests without a cluster, pure: judging them, reporting what was found, and translating them to gang objects."""
