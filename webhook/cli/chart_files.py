"""The Helm chart as files: those of the folder `webhook/installation/chart`, and what is generated for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import webhook.installation
from webhook import __version__
from webhook.cli.yaml_text import as_compact_yaml_text, as_yaml_text
from webhook.config.defaults import built_in_kinds
from webhook.config.schema import configuration_schema
from webhook.config.sections import FILE_PATTERN
from webhook.installation.chart_data import chart_data
from webhook.installation.kustomize import GENERATED
from webhook.model.reading import Manifest

_FOLDER = Path(webhook.installation.__file__).parent / "chart"
_SHADOWS = """\
# The files that `configuration.shadow` names: a RollcallConfiguration by the name of its file.
"""
# The files for monitoring that the chart has templates for.
MONITORING_FILES = ("alerts.yaml", "dashboard.yaml", "service-monitor.yaml")


def chart_files(
    configuration: Manifest, shadows: Mapping[str, Manifest], monitoring: Mapping[str, str]
) -> dict[str, str]:
    """Return the text of each file by its path.

    `configuration` is the default of the value with that name, and `shadows` has the files of its shadows by their
    names. `monitoring` has the text of the files
    for monitoring by their names.
    """
    files = {
        path.relative_to(_FOLDER).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(_FOLDER.rglob("*"))
        if path.is_file()
    }
    files["Chart.yaml"] += as_yaml_text({"version": __version__, "appVersion": __version__})
    files["values.yaml"] += as_yaml_text({"configuration": configuration})
    files["values.yaml"] += _SHADOWS + as_yaml_text({"shadowConfigurations": dict(shadows)})
    schema = json.loads(files["values.schema.json"])
    schema["properties"]["configuration"] = configuration_schema()
    schema["properties"]["shadowConfigurations"] = {
        "type": "object",
        "propertyNames": {"pattern": FILE_PATTERN},
        "additionalProperties": {"type": "object"},
    }
    files["values.schema.json"] = json.dumps(schema, indent=2) + "\n"
    for name, data in chart_data(built_in_kinds()).items():
        files[f"files/{name}.yaml"] = GENERATED + as_compact_yaml_text(data)
    for name, text in monitoring.items():
        files[f"files/monitoring/{name}"] = text
    return files
