"""Gangs as they stand in a cluster: pods, objects, health, and what the objects should be. Nothing here writes."""
