"""What admission writes into objects: the record on a workload at CREATE, and what PreparePod wants on a gang's pod.

Only JSON Patch operations leave here; nothing else of an object is touched.
"""
