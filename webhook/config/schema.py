"""The JSON schema of the configuration file, for programs that check it without Rollcall, such as Helm.

The schema has the keys and their allowed values. Only `rollcall config check` checks relations between keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from webhook.backends.registry import installed_backends
from webhook.config import sections

_SECTIONS: dict[str, type[BaseModel]] = {
    "enforcement": sections.EnforcementSection,
    "registration": sections.RegistrationSection,
    "escapes": sections.EscapesSection,
    "serving": sections.ServingSection,
    "certificates": sections.CertificatesSection,
    "tracing": sections.TracingSection,
    "tenancy": sections.TenancySection,
    "grove": sections.GroveSection,
}
# Keys of a model that do not refuse anything.
_TOLD = ("title", "description", "default")


def configuration_schema() -> dict[str, Any]:
    """Return the schema for the installed backends."""
    profile = _of(sections.ProfileSection)
    profile["properties"]["name"] = {"enum": list(installed_backends())}
    profile["properties"]["enforcement"] = _of(sections.EnforcementSection)
    profile["allOf"] = list(_of_profiles())
    scheduler = _of(sections.SchedulerSection)
    scheduler["properties"]["profiles"] = {"type": "array", "items": profile}
    properties: dict[str, Any] = {
        "apiVersion": {"const": sections.API_VERSION},
        "kind": {"const": sections.KIND},
        "scheduler": scheduler,
        "namespaces": {"type": "object", "additionalProperties": _of(sections.NamespaceSection)},
    }
    properties |= {name: _of(model) for name, model in _SECTIONS.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _of_profiles() -> Iterator[dict[str, Any]]:
    for name, backend in installed_backends().items():
        named = {"properties": {"name": {"const": name}}, "required": ["name"]}
        own = {"anyOf": [_of(backend.settings_model), {"type": "null"}]}
        yield {"if": named, "then": {"properties": {"config": own}}}


def _of(model: type[BaseModel]) -> dict[str, Any]:
    found: dict[str, Any] = _plain(model.model_json_schema())
    return found


def _plain(schema: Any) -> Any:
    """Return a schema without descriptive keys. YAML 1.1 reads a plain `on` and `off` as true and false, so the schema
    allows these too.
    """
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: {name: _plain(one) for name, one in value.items()} if key == "properties" else _plain(value)
        for key, value in schema.items()
        if key not in _TOLD
    }
    words = found.get("enum", ())
    if "off" in words:
        return {"enum": [*words, *([True] if "on" in words else []), False]}
    return found
