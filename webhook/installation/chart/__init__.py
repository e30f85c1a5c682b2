"""The Helm chart, made of the same objects as all else: what an installation is given by its values stands in their
place. What depends on the enabled schedulers is found by asking for each alone, and put together by the templates.
"""
