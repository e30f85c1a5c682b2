"""Rollcall: gang-scheduling admission for Kubernetes. A gang starts as a whole, or not at all.

`webhook.admission` makes the whole decision, without I/O; the server and the commands call it. `webhook.model` has the
data types, `webhook.backends` has one folder for each scheduler.
"""

from importlib.metadata import version

__version__ = version("rollcall")
