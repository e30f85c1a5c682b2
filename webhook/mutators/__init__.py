"""What admission writes into objects: the record on a workload at CREATE, and PreparePod's changes on a gang's pod.

The result is only JSON Patch operations; nothing else of an object is changed.
"""
