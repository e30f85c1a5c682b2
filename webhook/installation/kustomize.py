"""The kustomizations: files with the objects that `everything` makes from the same settings.

`base` expects certificates from elsewhere, `cert-manager` adds them to it, and `self-managed` is complete on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from webhook.config.settings import Settings
from webhook.installation.cert_manager import injection
from webhook.installation.containers import CONFIGURATION_FILE
from webhook.installation.installed_objects import TOPICS
from webhook.installation.names import LABELS, MUTATING, VALIDATING
from webhook.installation.options import Configuration, Options
from webhook.model.reading import EMPTY, Manifest

# kustomize adds a hash of the content to this name and to all references.
CONFIGURATION = "rollcall-configuration"
GENERATED = "# Made by `rollcall manifests write`: running it again overwrites changes here.\n"
_KIND = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
# The objects that are applied first are deleted first. So the webhooks come before the servers: an apply ends long
# before a server is ready, in any order, but a deletion must not leave an API server that calls missing servers.
_FIRST = ("net.yaml", "webhooks.yaml")
# Their folder: a shadow may have the name of another file.
_SHADOWS = "shadows"
_IN_ORDER = {"sortOptions": {"order": "fifo"}}

Dump = Callable[[Manifest], str]


class Configured(NamedTuple):
    """A configuration file: its text, the settings made from it, and the text of each shadow's file."""

    text: str
    settings: Settings
    shadows: Mapping[str, str] = EMPTY


def kustomizations(files: Configured, own: Configured, namespace: str, image: str, dump: Dump) -> Mapping[str, str]:
    """The text of each file by its path. `dump` writes an object as YAML.

    `files` is the configuration for certificates from elsewhere, `own` the one for self-managed certificates.
    """
    kept, made = (Options(image, namespace, Configuration(CONFIGURATION, one.text)) for one in (files, own))
    issued = replace(kept, cert_manager=True)
    certificates = TOPICS["certificates"](files.settings, issued)
    return {
        **_complete("base", files, kept, dump),
        "cert-manager/certificates.yaml": _documents(certificates, dump),
        "cert-manager/kustomization.yaml": GENERATED + dump(_issued(issued, dump)),
        **_complete("self-managed", own, made, dump),
    }


def _complete(folder: str, configured: Configured, options: Options, dump: Dump) -> dict[str, str]:
    found = {
        f"{topic}.yaml": _documents(manifests, dump)
        for topic, make in TOPICS.items()
        if topic != "configuration" and (manifests := make(configured.settings, options))
    }
    kustomization = {
        **_KIND,
        "resources": sorted(found, key=lambda path: path not in _FIRST),
        "configMapGenerator": [
            {
                "name": CONFIGURATION,
                "namespace": options.namespace,
                "files": [CONFIGURATION_FILE, *(f"{name}={_SHADOWS}/{name}" for name in configured.shadows)],
                "options": {"immutable": True, "labels": dict(LABELS)},
            }
        ],
        "images": [_image(options.image)],
        **_IN_ORDER,
    }
    found["kustomization.yaml"] = GENERATED + dump(kustomization)
    found[CONFIGURATION_FILE] = configured.text
    found |= {f"{_SHADOWS}/{name}": text for name, text in configured.shadows.items()}
    return {f"{folder}/{path}": text for path, text in found.items()}


def _image(written: str) -> Manifest:
    """The image that containers name, split into the fields that kustomize replaces."""
    whole, _, digest = written.partition("@")
    name, _, tag = whole.rpartition(":")
    if not name or "/" in tag:
        # No tag: the colon belongs to a registry's port.
        name, tag = whole, ""
    version = {"digest": digest} if digest else {"newTag": tag} if tag else {}
    return {"name": name, "newName": name, **version}


def _issued(options: Options, dump: Dump) -> Manifest:
    """The base with cert-manager's certificates, and its annotation for the caBundles."""
    # A patch is a list, and kustomize requires it as text.
    added = dump({"op": "add", "path": "/metadata/annotations", "value": injection(options)})
    return {
        **_KIND,
        "resources": ["../base", "certificates.yaml"],
        "patches": [
            {
                "target": {"group": "admissionregistration.k8s.io", "name": f"{MUTATING}|{VALIDATING}"},
                "patch": "- " + added.replace("\n", "\n  ").rstrip(" "),
            }
        ],
        **_IN_ORDER,
    }


def _documents(manifests: Iterable[Manifest], dump: Dump) -> str:
    return GENERATED + "".join(f"---\n{dump(manifest)}" for manifest in manifests)
