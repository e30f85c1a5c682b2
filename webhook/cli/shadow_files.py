"""The files of the shadows of a configuration, as they are mounted beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from webhook.config.settings import Settings
from webhook.errors import ConfigurationError, InputError, Problem
from webhook.installation.containers import CONFIGURATION_FILE


def shadow_texts(config: Path, settings: Settings) -> dict[str, str]:
    """Return the text of each shadow's file by its name. `settings` are those of the configuration in `config`. Raises
    `InputError`, and `ConfigurationError` if a file has the name under which the configuration itself is mounted.
    """
    return dict(_read(config, settings))


def _read(config: Path, settings: Settings) -> Iterator[tuple[str, str]]:
    for index, shadow in enumerate(settings.shadows):
        if not shadow.is_file:
            continue
        if shadow.name == CONFIGURATION_FILE:
            why = "is the name under which this configuration is mounted in a cluster; name the file otherwise"
            raise ConfigurationError(str(config), [Problem(f"shadow[{index}].config", shadow.name, why)])
        try:
            yield shadow.name, (config.parent / shadow.name).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(str(config.parent / shadow.name), str(error.strerror)) from None
