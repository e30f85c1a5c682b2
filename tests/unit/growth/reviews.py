"""One complete review without the transport: what a call of each endpoint does with an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.configurations import configuration_of
from tests.unit.growth.growing_objects import Style, grown, places, texts
from tests.unit.worlds import PCS
from webhook import admission
from webhook.admission.decision import doubtful_facts, required_facts
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.reading import Manifest
from webhook.offline.judgement import kind_of
from webhook.server.admission_review import write_review, written_patch
from webhook.validators.registry import Example


@dataclass(frozen=True)
class Grown:
    """An update, or a creation, of an object of which everything has grown."""

    object: Manifest
    old: Manifest | None
    facts: ClusterFacts


def created(example: Example, length: int, style: Style) -> Grown:
    """A creation."""
    return Grown(_grown(example.object, length, style), None, example.facts)


def reordered(example: Example, length: int, style: Style) -> Grown:
    """An update that turns all lists round."""
    now = _grown(example.object, length, style)
    return Grown(now, _turned(now), example.facts)


def enlarged(example: Example, length: int, style: Style) -> Grown:
    """An update of what was small."""
    return Grown(_grown(example.object, length, style), texts(example.old or example.object), example.facts)


def judge(case: Grown, settings: Settings) -> Verdict:
    """Both endpoints' work. What is read live is left out: it is bounded by what is in doubt."""
    manifest = case.object
    kind = PCS if manifest.get("kind") in {None, PCS.kind} else kind_of(manifest)
    operation = "CREATE" if case.old is None else "UPDATE"
    request = Request("uid", operation, kind, "default", "demo", manifest, case.old)
    required_facts(request, case.facts)
    mutated = admission.mutate(request, case.facts, settings)
    write_review("admission.k8s.io/v1", request, mutated, written_patch(mutated))
    verdict = admission.validate(request, case.facts, settings)
    doubtful_facts(verdict)
    write_review("admission.k8s.io/v1", request, verdict)
    return verdict


def settings_for(
    schedulers: Sequence[str],
    config: Mapping[str, Any],
    version: str | None = None,
    kueue: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings of these schedulers, the first of them the default, with that config and that section `kueue`."""
    stated = {} if version is None else {"schedulerVersion": version}
    first = {"name": schedulers[0], "config": dict(config), **stated}
    document = configuration_of(first, *schedulers[1:], kueue=dict(kueue or {}))
    return replace(settings_from(document, "test"), standalone=True)


def _grown(manifest: Manifest, length: int, style: Style) -> Manifest:
    found: Manifest = grown(manifest, places(manifest), length, style)
    return found


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_turned(below) for below in reversed(value)]
    return value
