"""Gangs as they stand in a cluster: pods, objects, health, losses, Kueue's holds, and what the objects should be.
Nothing here writes.
"""
