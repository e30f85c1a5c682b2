"""The kustomizations: files on a disk, with the objects that `everything` makes of the same settings.

`base` has certificates that somebody else keeps, `cert-manager` adds who keeps them, and `self-managed` stands for
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from webhook.config.settings import Settings
from webhook.installation.cert_manager import injection
from webhook.installation.containers import CONFIGURATION_FILE
from webhook.installation.everything import TOPICS
from webhook.installation.names import LABELS, MUTATING, VALIDATING
from webhook.installation.options import Configuration, Options
from webhook.model.reading import Manifest

# kustomize adds a hash of the content to it, and to all that name it.
CONFIGURATION = "rollcall-configuration"
GENERATED = "# Made by `rollcall manifests write`: a change here is lost when that is run again.\n"
_KIND = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
# What is applied first is deleted first. So who asks stands before who answers: an apply ends long before a server is
# ready, whatever its order, but a deletion must not leave an API server that asks nobody.
_FIRST = ("net.yaml", "webhooks.yaml")
_IN_ORDER = {"sortOptions": {"order": "fifo"}}

Dump = Callable[[Manifest], str]


class Configured(NamedTuple):
    """A configuration file: its text, and what it comes to."""

    text: str
    settings: Settings


def kustomizations(files: Configured, own: Configured, namespace: str, image: str, dump: Dump) -> Mapping[str, str]:
    """The text of each file by its path: `files` has certificates of somebody else's, `own` those of the reconciler's.
    `dump` writes an object as YAML.
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
                "files": [CONFIGURATION_FILE],
                "options": {"immutable": True, "labels": dict(LABELS)},
            }
        ],
        "images": [_image(options.image)],
        **_IN_ORDER,
    }
    found["kustomization.yaml"] = GENERATED + dump(kustomization)
    found[CONFIGURATION_FILE] = configured.text
    return {f"{folder}/{path}": text for path, text in found.items()}


def _image(written: str) -> Manifest:
    """The image that containers name, taken apart as kustomize wants it, to be replaced by another."""
    whole, _, digest = written.partition("@")
    name, _, tag = whole.rpartition(":")
    if not name or "/" in tag:
        # No tag, and the colon is that before a registry's port.
        name, tag = whole, ""
    version = {"digest": digest} if digest else {"newTag": tag} if tag else {}
    return {"name": name, "newName": name, **version}


def _issued(options: Options, dump: Dump) -> Manifest:
    """The base with cert-manager's certificates, which fills each caBundle in where it is told to."""
    # A patch is a list, and kustomize wants it as text.
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
