"""Rollcall: gang-scheduling admission for Kubernetes. A gang starts as a whole, or not at all.

`webhook.admission` makes the whole decision, without I/O; the server and the commands call it. `webhook.model` has the
data types, `webhook.backends` has one folder for each scheduler.
"""

from importlib.metadata import metadata

_ABOUT = metadata("rollcall")
__version__ = _ABOUT["Version"]


def _documentation() -> str:
    """Return the address of this build's documentation: `Documentation` under `project.urls` in pyproject.toml. It is
    the folder `docs` of a published release, and empty in a build that is not published.
    """
    named = (written.partition(", ") for written in _ABOUT.get_all("Project-URL") or ())
    return next((url for label, _, url in named if label == "Documentation"), "")


DOCUMENTATION = _documentation()
