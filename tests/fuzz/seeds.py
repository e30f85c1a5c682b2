"""The first inputs of the fuzzer: reviews of the examples of all rules, of our own reviews and manifests, and, if
available (ROLLCALL_RECORDINGS, ROLLCALL_SAMPLES), of published ones. None of them is kept in the corpus.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import yaml

from tests.fuzz.inputs import CHECK, EXPLAIN, MUTATE, VALIDATE, Input
from tests.fuzz.worlds import ROOT, every_example
from tests.unit.cli.opted_in_samples import readable_files
from tests.unit.worlds import gang_pod
from webhook.offline.judgement import kind_of
from webhook.offline.manifests import files_in, files_of, read_file

Manifest = dict[str, Any]


def seeds(*, given: bool = True) -> list[Input]:
    """The inputs to start from; with `given` also those that stand outside of the repository."""
    found = list(_reviews(given=given))
    ours = files_of(ROOT / "manifests" / name for name in ("facts", "opted-in", "samples", "trees"))
    documents = {path: read_file(path) for path in ours}
    if _there("ROLLCALL_SAMPLES", given):
        published = Path(os.environ["ROLLCALL_SAMPLES"])
        # Those that cannot be read are inputs of the commands alone.
        documents |= {path: [] for path in files_in(published)} | readable_files(published)
    for path in documents:
        text = path.read_bytes()
        found += [Input("every", CHECK, text), Input("cluster", EXPLAIN, text)]
        found += [Input("default", CHECK, text, "scheduler=koord-scheduler&strict=true")]
        for document in documents[path]:
            asked = review(document.manifest)
            found += [Input(world, to, asked) for world in ("default", "every", "asked") for to in (VALIDATE, MUTATE)]
    return found


def _there(variable: str, given: bool) -> bool:
    return given and variable in os.environ


def _reviews(*, given: bool) -> Iterator[Input]:
    for path in sorted((ROOT / "tests" / "reviews").glob("*.json")):
        for to in (VALIDATE, MUTATE):
            yield Input("default", to, path.read_bytes(), "timeout=10s")
    for _, example in every_example():
        asked = review(example.object, example.old)
        for world in ("default", "every", "cluster", "asked"):
            yield Input(world, VALIDATE, asked)
        yield Input("cluster", MUTATE, asked)
        yield Input("every", CHECK, yaml.safe_dump(example.object).encode())
    for labels in ({}, {"rollcall.dev/scheduler": "volcano"}, {"kueue.x-k8s.io/queue-name": "a"}):
        for world in ("default", "every", "cluster", "asked"):
            yield Input(world, MUTATE, review(gang_pod(labels=labels)))
    if _there("ROLLCALL_RECORDINGS", given):
        for path in sorted(Path(os.environ["ROLLCALL_RECORDINGS"]).rglob("[0-9]*.json")):
            body = orjson.dumps(orjson.loads(path.read_bytes()))
            yield Input("default", VALIDATE, body)
            yield Input("cluster", MUTATE, body)


def review(manifest: Manifest, old: Manifest | None = None) -> bytes:
    """The review of a creation, or of an update of `old`."""
    group, version, kind = kind_of(manifest)
    metadata = manifest.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": version, "kind": kind or "PodCliqueSet"},
        "operation": "CREATE" if old is None else "UPDATE",
        "name": _word(names.get("name")),
        "namespace": _word(names.get("namespace")) or "default",
        "object": manifest,
        "oldObject": old,
        "options": None,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _word(found: object) -> str:
    return found if isinstance(found, str) else ""
