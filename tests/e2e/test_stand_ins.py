"""The stand-ins for other projects' CustomResourceDefinitions, compared with the real ones.

ROLLCALL_CRDS names a folder with one folder a system, and in it that system's CustomResourceDefinitions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

CRDS = Path(__file__).parent / "crds"
# Those below a system's folder stand in for another release of it, and for the file of the same path.
STAND_INS = sorted(CRDS.rglob("*.yaml"))

# What must be the same wherever a stand-in declares a field. `required` is compared too, among the declared fields.
SAME = (
    "type",
    "format",
    "x-kubernetes-int-or-string",
    "default",
    "enum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)
# A stand-in need not state these; one that does must state the real ones.
LIMITS = (
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "x-kubernetes-validations",
)

Definition = Mapping[str, Any]
RealOnes = Mapping[tuple[str, str], list[Definition]]


@pytest.fixture(scope="module")
def real_ones() -> RealOnes:
    """The real definitions by group and kind. Folders below a system's hold those of other releases."""
    folder = os.environ.get("ROLLCALL_CRDS")
    if not folder:
        pytest.skip("ROLLCALL_CRDS names no folder of real CustomResourceDefinitions to hold the stand-ins against.")
    found: dict[tuple[str, str], list[Definition]] = {}
    for path in sorted(Path(folder).glob("*/*.yaml")):
        definition = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
        spec = definition["spec"]
        found.setdefault((spec["group"], spec["names"]["kind"]), []).append(definition)
    return found


@pytest.fixture(params=STAND_INS, ids=lambda path: str(path.relative_to(CRDS).with_suffix("")))
def stand_in(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def pair(stand_in: Path, real_ones: RealOnes) -> tuple[Definition, Definition]:
    ours = yaml.load(stand_in.read_text(encoding="utf-8"), yaml.CSafeLoader)
    if stand_in.parent != CRDS:
        path = Path(os.environ["ROLLCALL_CRDS"]) / stand_in.relative_to(CRDS)
        return ours, yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    group, kind = ours["spec"]["group"], ours["spec"]["names"]["kind"]
    real = real_ones.get((group, kind), [])
    assert len(real) == 1, f"{stand_in.name}: {len(real)} real definitions of {kind} in {group}, not one"
    return ours, real[0]


def served(definition: Definition) -> dict[str, Any]:
    """What a definition offers to clients, by field path, without the schemas."""
    spec = definition["spec"]
    names = {f"spec.names.{key}": spec["names"].get(key) for key in ("kind", "plural", "singular", "listKind")}
    short = {"spec.names.shortNames": spec["names"].get("shortNames", [])}
    versions = {
        f"spec.versions[{version['name']}].{key}": version.get(key)
        for version in spec["versions"]
        for key in ("served", "storage", "subresources")
    }
    top = {"metadata.name": definition["metadata"]["name"], "spec.group": spec["group"], "spec.scope": spec["scope"]}
    return top | names | short | versions


def schemas(definition: Definition) -> dict[str, Any]:
    return {version["name"]: version["schema"]["openAPIV3Schema"] for version in definition["spec"]["versions"]}


def differences(ours: Definition, real: Definition, path: str) -> Iterator[str]:
    """Where a stand-in's schema says something else than the real one, at `path` and below."""
    for key in SAME:
        if ours.get(key) != real.get(key):
            yield f"{path}: {key} is {ours.get(key)!r}, and really {real.get(key)!r}"
    for key in LIMITS:
        if key in ours and ours[key] != real.get(key):
            yield f"{path}: {key} is {ours[key]!r}, and really {real.get(key)!r}"
    fields, real_fields = ours.get("properties", {}), real.get("properties", {})
    required = set(ours.get("required", []))
    really_required = fields.keys() & set(real.get("required", []))
    for name in sorted(required ^ really_required):
        yield f"{path}.{name}: is {'' if name in required else 'not '}required, and really the contrary"
    for name, field in fields.items():
        if name in real_fields:
            yield from differences(field, real_fields[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}: the real schema has no such field"
    for key, step in (("items", "[]"), ("additionalProperties", "{}")):
        if key in ours:
            yield from differences(ours[key], real.get(key, {}), path + step)


def test_a_stand_in_crd_has_the_names_scope_versions_and_subresources_of_the_real_one(
    stand_in: Path, real_ones: RealOnes
) -> None:
    ours, real = map(served, pair(stand_in, real_ones))
    wrong = [
        f"{stand_in.name}: {path} is {ours.get(path)!r}, and really {real.get(path)!r}"
        for path in sorted(ours.keys() | real.keys())
        if ours.get(path) != real.get(path)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_stand_in_crd_has_the_fields_of_the_real_schema(stand_in: Path, real_ones: RealOnes) -> None:
    ours, real = map(schemas, pair(stand_in, real_ones))
    wrong = [
        f"{stand_in.name}: {difference}"
        for version, schema in ours.items()
        for difference in differences(schema, real.get(version, {}), version)
    ]
    assert not wrong, "\n".join(wrong)
