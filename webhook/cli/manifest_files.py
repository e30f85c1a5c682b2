"""The files of `rollcall manifests write`: the kustomizations, the Helm chart (the folder `webhook/installation/chart`
and what is generated for it), and the shadows of a configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import typer
import yaml

import webhook.installation
from webhook import __version__
from webhook.config.configuration_schema import configuration_schema
from webhook.config.defaults import built_in_kinds
from webhook.config.file import settings_from
from webhook.config.sections import API_VERSION, FILE_PATTERN, KIND
from webhook.config.settings import Settings
from webhook.errors import ConfigurationError, InputError, Problem
from webhook.installation.chart_data import chart_data
from webhook.installation.deployment import CONFIGURATION_FILE
from webhook.installation.installed_objects import GENERATED, InstalledConfiguration, kustomizations
from webhook.model.reading import Manifest
from webhook.offline.yaml_and_json import as_compact_yaml_text, as_yaml_text


def shadow_texts(config: Path, settings: Settings) -> dict[str, str]:
    """Returns the text of each shadow's file by its name. `settings` are those of the configuration in `config`. Raises
    `InputError`, and `ConfigurationError` if a file has the name under which the configuration itself is mounted.
    """
    texts = {}
    for index, shadow in enumerate(settings.shadows):
        if not shadow.is_file:
            continue
        if shadow.name == CONFIGURATION_FILE:
            why = "is the name under which this configuration is mounted in a cluster; name the file otherwise"
            raise ConfigurationError(str(config), [Problem(f"shadow[{index}].config", shadow.name, why)])
        texts[shadow.name] = _text(config.parent / shadow.name)
    return texts


_FOLDER = Path(webhook.installation.__file__).parent / "chart"
_SHADOWS = """\
# The files that `configuration.shadow` names: a RollcallConfiguration by the name of its file.
"""
# The files for monitoring that the chart has templates for.
MONITORING_FILES = ("alerts.yaml", "dashboard.yaml", "service-monitor.yaml")


def chart_files(
    configuration: Manifest, shadows: Mapping[str, Manifest], monitoring: Mapping[str, str]
) -> dict[str, str]:
    """Returns the text of each file by its path. `configuration` is the default of the value with that name; `shadows`
    and `monitoring` have the files of its shadows and those for monitoring by their names.
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


_MODE = re.compile(r"^(certificates:\n(?:[ #].*\n|\n)*?  mode: )\w+$", re.ASCII | re.MULTILINE)


def manifest_texts(config: Path, settings: Settings, namespace: str, image: str, folder: Path) -> dict[str, str]:
    """Returns the text of each file by its path, for the configuration in `config` with these settings. Files in
    `folder`/monitoring become a part of the chart. Raises `InputError`.
    """
    text, shadows = _text(config), shadow_texts(config, settings)
    files, self_managed = (_configured(text, mode, str(config), settings, shadows) for mode in ("files", "selfManaged"))
    values: dict[str, Any] = {
        key: value for key, value in yaml.safe_load(self_managed.text).items() if key not in {"apiVersion", "kind"}
    }
    shadow_values = {name: yaml.safe_load(content) for name, content in shadows.items()}
    monitoring = {name: _text(path) for name in MONITORING_FILES if (path := folder / "monitoring" / name).exists()}
    return {
        **kustomizations(files, self_managed, namespace, image, as_yaml_text),
        **{f"chart/{path}": content for path, content in chart_files(values, shadow_values, monitoring).items()},
    }


def write(folder: Path, files: dict[str, str]) -> None:
    """Writes the files and prints their names. Raises `InputError`."""
    for path, text in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            # Files are written only inside the named folder.
            for place in takewhile(lambda place: place != folder, (target, *target.parents)):
                if place.is_symlink():
                    why = "is a link, and Rollcall does not write through links; remove it, or name its target"
                    raise InputError(str(place), why)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(str(target), f"cannot be written: {error.strerror}") from None
        typer.echo(str(target))


def _text(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(str(config), str(error.strerror)) from None


def _configured(
    text: str, mode: str, source: str, settings: Settings, shadows: Mapping[str, str]
) -> InstalledConfiguration:
    """Returns the configuration with that certificate mode: as its own text with its comments, if possible."""
    document = yaml.safe_load(text)
    expected = {**document, "certificates": {**(document.get("certificates") or {}), "mode": mode}}
    edited = _MODE.sub(rf"\g<1>{mode}", text) if "certificates:" in text else f"{text}certificates:\n  mode: {mode}\n"
    if yaml.safe_load(edited) != expected:
        edited = as_yaml_text({"apiVersion": API_VERSION, "kind": KIND, **expected})
    files = {shadow.name: shadow.settings for shadow in settings.shadows if shadow.is_file}
    return InstalledConfiguration(edited, settings_from(expected, source, shadow_files=files), shadows)
