"""What an upgrade of Grove, Kubernetes or a scheduler means for the gangs that live in a cluster (no I/O).

`changes/` has the knowledge: one entry for each fact. `plan.py` judges. `present.py` is what is known of a gang.
"""
