"""The text of a configuration to start from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.backends.registry import installed_backends
from webhook.cli.yaml_text import as_yaml_text
from webhook.config.sections import API_VERSION, KIND

_TEXT = """\
# yaml-language-server: $schema={schema}
apiVersion: {version}
kind: {kind}
scheduler:
  # The scheduler of a workload that names none, in a namespace that names none.
  defaultProfileName: {default}
  # The enabled schedulers; default-scheduler is always enabled.
  profiles:
{profiles}enforcement:
  # The strictest action that any rule may take: deny, warn, audit or "off".
  mode: deny
  # Single rules by id, such as koordinator/mnnvl: warn.
  rules: {{}}
"""


def first_configuration(schedulers: Sequence[str], schema: str) -> str:
    """Return a configuration with these schedulers; the first is the default one. `schema` is the file of its schema,
    relative to the configuration.
    """
    profiles = "".join(_profile(name) for name in dict.fromkeys(schedulers))
    return _TEXT.format(schema=schema, version=API_VERSION, kind=KIND, default=schedulers[0], profiles=profiles)


def _profile(name: str) -> str:
    return "".join(f"  {line}\n" for line in _lines(name))


def _lines(name: str) -> Iterator[str]:
    """Yield a profile with the default of each of its keys; a key without a default is a comment."""
    yield f"- name: {name}"
    keys = installed_backends()[name].settings_model().model_dump()
    if keys:
        yield "  config:"
    for key, value in keys.items():
        if value is None:
            yield f"    # {key}:"
        else:
            yield from (f"    {line}" for line in as_yaml_text({key: value}).splitlines())
