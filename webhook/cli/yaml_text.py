"""Objects as YAML that kubectl reads back unchanged, for `render` and the examples of `rules`."""

from __future__ import annotations

from typing import Any

import yaml

from webhook.model.reading import Manifest
from webhook.sources.scalars import plain

# libyaml's dumper, if PyYAML has it, is seven times as fast: a large set becomes a million lines.
_FASTEST: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# libyaml counts in 32 bits.
_NO_WRAPPING = 2**31 - 1


class _Dumper(_FASTEST):  # type: ignore[misc]
    """Writes keys in the order of the object, without aliases: kubectl reads aliases, but people should not have to."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write every object in full."""
        return True


def _string(dumper: Any, value: str) -> Any:
    # A word in newer YAML versions may be a boolean or a number to kubectl: on, y, 0o7, 1e3.
    style = "|" if "\n" in value else "" if _stays(value) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)


def _stays(value: str) -> bool:
    try:
        return isinstance(plain(value), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _string)


def as_yaml_text(manifest: Manifest) -> str:
    """Return one document, without its `---`. Lines are not wrapped, so that they can be searched."""
    return _written(manifest, flow_style=False)


def as_compact_yaml_text(manifest: Manifest) -> str:
    """Return one document, without its `---`. Lists and mappings that contain no others are on one line."""
    return _written(manifest, flow_style=None)


def _written(manifest: Manifest, *, flow_style: bool | None) -> str:
    text: str = yaml.dump(
        manifest, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow_style, width=_NO_WRAPPING
    )
    return text
