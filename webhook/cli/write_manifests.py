"""`rollcall manifests write`: the kustomizations and the chart, as files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
import yaml

from webhook.cli.chart_files import MONITORING_FILES, chart_files
from webhook.cli.shadow_files import shadow_texts
from webhook.cli.yaml_text import as_yaml_text
from webhook.config.file import settings_from
from webhook.config.sections import API_VERSION, KIND
from webhook.config.settings import Settings
from webhook.errors import InputError
from webhook.installation.kustomize import Configured, kustomizations

_MODE = re.compile(r"^(certificates:\n(?:[ #].*\n|\n)*?  mode: )\w+$", re.ASCII | re.MULTILINE)


def written(config: Path, settings: Settings, namespace: str, image: str, folder: Path) -> dict[str, str]:
    """Return the text of each file by its path, for the configuration in `config` with these settings. Files in
    `folder`/monitoring become a part of the chart. Raises `InputError`.
    """
    text, shadows = _text(config), shadow_texts(config, settings)
    files, own = (_configured(text, mode, str(config), settings, shadows) for mode in ("files", "selfManaged"))
    values: dict[str, Any] = {
        key: value for key, value in yaml.safe_load(own.text).items() if key not in {"apiVersion", "kind"}
    }
    shadow_values = {name: yaml.safe_load(content) for name, content in shadows.items()}
    monitoring = {name: _text(path) for name in MONITORING_FILES if (path := folder / "monitoring" / name).exists()}
    return {
        **kustomizations(files, own, namespace, image, as_yaml_text),
        **{f"chart/{path}": content for path, content in chart_files(values, shadow_values, monitoring).items()},
    }


def write(folder: Path, files: dict[str, str]) -> None:
    """Write the files and print their names. Raises `InputError`."""
    for path, text in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _refuse_links(folder, target)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(str(target), f"cannot be written: {error.strerror}") from None
        typer.echo(str(target))


def _refuse_links(folder: Path, target: Path) -> None:
    """Raise `InputError` if the file, or a folder below `folder` on its path, is a link: files are written only inside
    the named folder.
    """
    for place in (target, *target.parents):
        if place == folder:
            return
        if place.is_symlink():
            raise InputError(
                str(place), "is a link, and Rollcall does not write through links; remove it, or name its target"
            )


def _text(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(str(config), str(error.strerror)) from None


def _configured(text: str, mode: str, source: str, settings: Settings, shadows: Mapping[str, str]) -> Configured:
    """Return the configuration with that certificate mode: as its own text with its comments, if possible."""
    document = yaml.safe_load(text)
    wanted = {**document, "certificates": {**(document.get("certificates") or {}), "mode": mode}}
    edited = _MODE.sub(rf"\g<1>{mode}", text) if "certificates:" in text else f"{text}certificates:\n  mode: {mode}\n"
    if yaml.safe_load(edited) != wanted:
        edited = as_yaml_text({"apiVersion": API_VERSION, "kind": KIND, **wanted})
    files = {shadow.name: shadow.settings for shadow in settings.shadows if shadow.is_file}
    return Configured(edited, settings_from(wanted, source, shadow_files=files), shadows)
