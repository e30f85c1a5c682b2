"""Rules about Kueue in front of a gang scheduler. They hold for every scheduler."""
