"""The Helm chart. It is made from the same objects as all other manifests, with the chart's values in their places.

Parts that depend on the enabled schedulers are generated for each scheduler alone, and combined by the templates.
"""
