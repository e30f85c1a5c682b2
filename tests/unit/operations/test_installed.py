"""The configuration of an installation, read from what its server mounts."""

from __future__ import annotations

import asyncio

import pytest

from tests.configurations import configuration_of
from tests.unit.operations.test_snapshot import ACCESS, OWN, Cluster
from webhook.config.defaults import default_settings
from webhook.config.file import settings_from
from webhook.errors import ConfigurationError
from webhook.installation.installed_objects import installed_objects
from webhook.installation.parameters import Options, name_by_content
from webhook.model.reading import Manifest
from webhook.operations.cluster_facts import InstalledSettings, installed_settings

CONFIGURATION = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler: {profiles: [{name: volcano}], defaultProfileName: volcano}
"""
DEPLOYMENT = f"/apis/apps/v1/namespaces/{OWN}/deployments/rollcall"


def manifests(content: str | None = CONFIGURATION, **shadows: str) -> list[Manifest]:
    """An installation, as it is printed."""
    configuration = None if content is None else name_by_content(content, shadows)
    return list(
        installed_objects(default_settings(), Options("rollcall:1", namespace=OWN, configuration=configuration))
    )


def cluster(*objects: Manifest) -> Cluster:
    """One that has these objects."""
    found = Cluster()
    for one in objects:
        name, group = one["metadata"]["name"], "apis/apps/v1" if one["kind"] == "Deployment" else "api/v1"
        found.answers[f"/{group}/namespaces/{OWN}/{one['kind'].lower()}s/{name}"] = (200, one)
    return found


def read(found: Cluster) -> InstalledSettings:
    return asyncio.run(installed_settings(ACCESS, OWN, found))


def test_the_configuration_is_read_from_the_config_map_that_the_server_mounts() -> None:
    settings, unknown = read(cluster(*manifests()))
    assert (set(settings.profiles), settings.default, unknown) == ({"volcano", "default-scheduler"}, "volcano", "")


def test_a_server_without_a_mounted_configuration_has_the_defaults() -> None:
    settings, unknown = read(cluster(*manifests(None)))
    assert (set(settings.profiles), unknown) == (set(default_settings().profiles), "")


def test_the_reason_for_an_unknown_configuration_is_reported() -> None:
    (config_map,) = (one for one in manifests() if one["kind"] == "ConfigMap")
    source = f"ConfigMap {OWN}/{config_map['metadata']['name']}"
    others = [one for one in manifests() if one["kind"] != "ConfigMap"]
    assert read(cluster()).unknown == f"HTTP 404: {DEPLOYMENT} not found"
    assert read(cluster(*others)).unknown.startswith("HTTP 404: ")
    assert read(cluster(*others, {**config_map, "data": {}})).unknown == f"{source} has no configuration.yaml"
    broken = {**config_map, "data": {"configuration.yaml": "a: ["}}
    assert read(cluster(*others, broken)).unknown.startswith(f"{source} is not YAML: ")
    forbidden = cluster()
    forbidden.answers[DEPLOYMENT] = (403, {"message": "forbidden"})
    assert read(forbidden).unknown == "HTTP 403: forbidden"


def test_an_invalid_installed_configuration_is_reported_with_its_place() -> None:
    wrong = CONFIGURATION.replace("volcano}]", "yarn}]")
    config_map = next(one for one in manifests(wrong) if one["kind"] == "ConfigMap")
    with pytest.raises(ConfigurationError, match=f"ConfigMap {OWN}/{config_map['metadata']['name']}: scheduler"):
        read(cluster(*manifests(wrong)))


def test_the_installed_configuration_gives_the_same_settings_as_the_file() -> None:
    settings, _ = read(cluster(*manifests()))
    document = configuration_of("volcano")
    assert settings.registration == settings_from(document, "test").registration


def test_the_files_of_shadows_are_read_from_the_same_config_map() -> None:
    own = CONFIGURATION + "shadow: [{config: next.yaml}, kai-scheduler]\n"
    settings, unknown = read(
        cluster(*manifests(own, **{"next.yaml": CONFIGURATION.replace("volcano", "koord-scheduler")}))
    )
    assert unknown == ""
    assert [shadow.name for shadow in settings.shadows] == ["next.yaml", "kai-scheduler"]
    assert settings.shadows[0].settings.default == "koord-scheduler"
    with pytest.raises(ConfigurationError, match=r"next\.yaml"):
        read(cluster(*manifests(own)))
    with pytest.raises(ConfigurationError, match=r", next\.yaml: shadow: "):
        read(cluster(*manifests(own, **{"next.yaml": own})))
