"""Deployments of other systems: the images of their containers, and the configuration file that they mount."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.doctor.snapshot import Snapshot
from webhook.model.projections import key_of
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.sources.limits import Problem
from webhook.sources.yaml_values import documents_of


def pod_of(deployment: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod spec in the template of a Deployment."""
    return mapping(mapping(mapping(deployment.get("spec")).get("template")).get("spec"))


def images(deployment: Manifest) -> Iterator[tuple[str, str]]:
    """The images of a Deployment's containers, each as its name and its tag."""
    for container in map(mapping, sequence(pod_of(deployment).get("containers"))):
        yield _split(text(container.get("image")) or "")


def _split(image: str) -> tuple[str, str]:
    """An image's name and tag; the tag is empty if a digest is used."""
    name = image.partition("@")[0]
    path, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{path}{slash}{last}", tag


class ConfigurationFile(NamedTuple):
    """What a system calls its configuration file, the API group and kind of the document, and whether a Deployment is
    the system's.
    """

    called: str
    group: str
    kind: str
    runs: Callable[[Snapshot, Manifest], bool]


def config_maps(deployment: Manifest) -> Iterator[tuple[str, str]]:
    """The ConfigMaps that a Deployment mounts, each as namespace and name."""
    namespace = key_of(deployment)[0]
    for volume in map(mapping, sequence(pod_of(deployment).get("volumes"))):
        if name := text(mapping(volume.get("configMap")).get("name")):
            yield namespace, name


def document_in(config_map: Manifest, group: str, kind: str) -> Manifest | None:
    """The first YAML document of that API group and kind in a ConfigMap."""
    for content in mapping(config_map.get("data")).values():
        try:
            values = [document.value for document in documents_of(str(content))]
        except Problem:
            continue
        for value in values:
            if isinstance(value, dict) and (_group(value), value.get("kind")) == (group, kind):
                return value
    return None


def _group(document: Manifest) -> str:
    return str(document.get("apiVersion")).rpartition("/")[0]
