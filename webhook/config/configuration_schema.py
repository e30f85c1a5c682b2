"""The JSON schema of the configuration file, for programs that check it without Rollcall, such as Helm.

The schema has the keys and their allowed values. Only `rollcall config check` checks relations between keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from webhook.backends.registry import installed_backends
from webhook.config import sections
from webhook.config.exceptions_section import ExceptionSection
from webhook.config.file import MOST_SHADOWS, AuditSection, RemediesSection, ShadowFileSection, WorkloadsSection
from webhook.config.kueue_section import KueueSection
from webhook.config.sections import FitSection
from webhook.validators import CHOICE_RULES, GENERAL_RULES, SHAPE_RULES

_SECTIONS: dict[str, type[BaseModel]] = {
    "enforcement": sections.EnforcementSection,
    "registration": sections.RegistrationSection,
    "escapes": sections.EscapesSection,
    "audit": AuditSection,
    "serving": sections.ServingSection,
    "certificates": sections.CertificatesSection,
    "tracing": sections.TracingSection,
    "tenancy": sections.TenancySection,
    "grove": sections.GroveSection,
    "kueue": KueueSection,
    "fit": FitSection,
    "remedies": RemediesSection,
    "workloads": WorkloadsSection,
}
# Keys of a model that do not refuse anything.
_EXPLANATIONS = ("title", "description", "default")
# The draft that yaml-language-server reads.
_DRAFT = "http://json-schema.org/draft-07/schema#"


def configuration_schema() -> dict[str, Any]:
    """Returns the schema for the installed backends, with what refuses something and nothing else."""
    return _schema(_EXPLANATIONS)


def published_schema() -> dict[str, Any]:
    """Returns the schema for editors: with descriptions, defaults, and the ids of the rules."""
    schema = _schema(("title",)) | {"required": ["apiVersion", "kind"]}
    every = (
        *SHAPE_RULES,
        *CHOICE_RULES,
        *GENERAL_RULES,
        *(rule for of in installed_backends().values() for rule in of.rules),
    )
    ids = {"enum": sorted({rule.id for rule in every})}
    profile = schema["properties"]["scheduler"]["properties"]["profiles"]["items"]
    for holder in (schema, profile):
        holder["properties"]["enforcement"]["properties"]["rules"]["propertyNames"] = ids
    exceptable = {"enum": sorted({rule.id for rule in every if not rule.never_excepted})}
    schema["properties"]["exceptions"]["items"]["properties"]["rules"]["items"] = exceptable
    return {"$schema": _DRAFT, "title": sections.KIND, **schema}


def _schema(without: tuple[str, ...]) -> dict[str, Any]:
    profile = _section_schema(sections.ProfileSection, without)
    profile["properties"]["name"] = {"enum": list(installed_backends())}
    profile["properties"]["enforcement"] = _section_schema(sections.EnforcementSection, without)
    profile["allOf"] = [
        {
            "if": {"properties": {"name": {"const": name}}, "required": ["name"]},
            "then": {
                "properties": {
                    "config": {"anyOf": [_section_schema(backend.settings_model, without), {"type": "null"}]}
                }
            },
        }
        for name, backend in installed_backends().items()
    ]
    scheduler = _section_schema(sections.SchedulerSection, without)
    scheduler["properties"]["profiles"] = {"type": "array", "items": profile}
    properties: dict[str, Any] = {
        "apiVersion": {"const": sections.API_VERSION},
        "kind": {"const": sections.KIND},
        "scheduler": scheduler,
        "namespaces": {"type": "object", "additionalProperties": _section_schema(sections.NamespaceSection, without)},
        "exceptions": {"type": "array", "items": _section_schema(ExceptionSection, without)},
    }
    properties |= {name: _section_schema(model, without) for name, model in _SECTIONS.items()}
    shadows = {"anyOf": [{"enum": list(installed_backends())}, _section_schema(ShadowFileSection, without)]}
    properties["shadow"] = {"type": "array", "maxItems": MOST_SHADOWS, "items": shadows}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _section_schema(model: type[BaseModel], without: tuple[str, ...]) -> dict[str, Any]:
    schema = model.model_json_schema()
    shown: dict[str, Any] = _plain(_inlined(schema, schema.pop("$defs", {})), without)
    return shown


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Returns a schema with the blocks that it refers to in their places."""
    if isinstance(schema, list):
        return [_inlined(entry, definitions) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref", "").rpartition("/")[2]
    referred = _inlined(definitions[name], definitions) if name else {}
    return {**referred, **{key: _inlined(value, definitions) for key, value in schema.items() if key != "$ref"}}


def _plain(schema: Any, without: tuple[str, ...]) -> Any:
    """Returns a schema without those keys. YAML 1.1 reads a plain `on` and `off` as true and false, so the schema
    allows these too.
    """
    if isinstance(schema, list):
        return [_plain(entry, without) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: {name: _plain(property, without) for name, property in value.items()}
        if key == "properties"
        else " ".join(value.split())
        if key == "description"
        else _plain(value, without)
        for key, value in schema.items()
        if key not in without
    }
    words = plain.get("enum", ())
    if "off" in words:
        shown = {key: value for key, value in plain.items() if key in _EXPLANATIONS}
        return shown | {"enum": [*words, *([True] if "on" in words else []), False]}
    return plain
