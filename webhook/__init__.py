"""Rollcall: gang-scheduling admission for Kubernetes. A gang starts as a whole, or not at all.

`webhook.admission` makes the whole decision, without I/O; the server and the commands call it. `webhook.model` has the
data types, `webhook.backends` has one folder for each scheduler.
"""

from functools import cache

# The build backend reads it here (`tool.hatch.version` in pyproject.toml).
__version__ = "0.16.0"


@cache
def documentation() -> str:
    """Returns the address of this build's documentation: `Documentation` under `project.urls` in pyproject.toml. It is
    the folder `docs` of a published release, and empty in a build that is not published.
    """
    # Only reports need it, and the import takes as long as that of Typer.
    from importlib.metadata import metadata  # noqa: PLC0415

    urls = (written.partition(", ") for written in metadata("rollcall").get_all("Project-URL") or ())
    return next((url for label, _, url in urls if label == "Documentation"), "")
