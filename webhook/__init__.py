"""Rollcall: gang-scheduling admission for Kubernetes. Every pod present, or nobody starts.

`webhook.admission` takes the whole decision and is pure; the server, the command line and (later) the reconciler call
it. `webhook.model` holds what they talk about, `webhook.backends` one folder a scheduler.
"""

from importlib.metadata import version

__version__ = version("rollcall")
