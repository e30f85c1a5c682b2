"""Rollcall: gang-scheduling admission for Kubernetes. Every pod present, or nobody starts.

`webhook.admission` takes the whole decision and is pure; the server and the command line call it. `webhook.model` holds
what they talk about, `webhook.backends` has one folder for each scheduler.
"""

from importlib.metadata import version

__version__ = version("rollcall")
