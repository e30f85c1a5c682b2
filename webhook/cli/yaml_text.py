"""Objects as YAML that kubectl reads back as they are, for `render` and the examples of `rules`."""

from __future__ import annotations

from typing import Any

import yaml

from webhook.model.reading import Manifest
from webhook.sources.scalars import plain

# libyaml's, where PyYAML has it, is seven times as fast: a large set comes to a million lines.
_FASTEST: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
# libyaml counts in 32 bits.
_NO_WRAPPING = 2**31 - 1


class _Dumper(_FASTEST):  # type: ignore[misc]
    """In the order of the object, without aliases: kubectl reads them, people should not have to."""

    def ignore_aliases(self, data: Any) -> bool:
        """Every object is written out."""
        return True


def _string(dumper: Any, value: str) -> Any:
    # What YAML's newer rules take for a word may be a boolean or a number to kubectl: on, y, 0o7, 1e3.
    style = "|" if "\n" in value else "" if _stays(value) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)


def _stays(value: str) -> bool:
    try:
        return isinstance(plain(value), str)
    except ValueError:
        return False


_Dumper.add_representer(str, _string)


def as_yaml_text(manifest: Manifest) -> str:
    """One document, without its `---`. Nothing is wrapped, so that a line of it can be searched for."""
    text: str = yaml.dump(
        manifest, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_NO_WRAPPING
    )
    return text
