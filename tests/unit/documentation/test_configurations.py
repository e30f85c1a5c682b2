"""Every configuration, manifest and other file in the documentation is valid for its stated purpose."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.documentation.pages import GENERATED, ROOT, Block, blocks, pages
from webhook.cli import run
from webhook.config.sections import RollcallConfiguration

_HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
_SECTIONS = set(RollcallConfiguration.model_fields) - set(_HEAD)
# By the name in a file's first line: those that their pages show being refused, and the exit code.
_REFUSED = {"broken.yaml": 2, "refused.yaml": 1}
# Files of an API server: tests/e2e/client_certificate.py starts API servers with them.
_OF_THE_API_SERVER = {"AdmissionConfiguration", "Config"}
# Of Kueue: no rule is about them.
_OF_KUEUE = {"AdmissionCheck", "ClusterQueue"}
# Of Grove: no rule is about it; the checks of the doctor are tested with such ones.
_OF_GROVE = {"OperatorConfiguration"}
# Facts: the commands of the page read them.
_FACTS = {"NodeList"}
# The workload of a worked example: tests/unit/cli/test_new_workload.py declares its kind.
_DECLARED = {"Training"}
_UNJUDGED = _OF_THE_API_SERVER | _OF_KUEUE | _OF_GROVE | _FACTS | _DECLARED
# Of the example's own backend, which is installed only where its tests run.
_OF_OTHER_PACKAGES = {"batch-scheduler"}


def fenced(*languages: str) -> list[Any]:
    """Return what is fenced in these languages on pages that are written by hand, as parameters of a test."""
    written = [page for page in pages() if page not in GENERATED]
    fences = [block for page in written for block in blocks(page) if block.language in languages]
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in fences]


def test_every_block_declares_its_language() -> None:
    known = {"", "sh", "text", "yaml", "json", "toml", "python"}
    found = [(block.page, block.line) for page in pages() for block in blocks(page) if block.language not in known]
    assert found == []


@pytest.mark.parametrize("block", fenced("yaml"))
def test_a_yaml_block_is_valid_for_its_purpose(
    block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = list(yaml.safe_load_all(block.text))
    assert documents
    named = re.match(r"# (\S+\.yaml)\n", block.text)
    expected = _REFUSED.get(named[1], 0) if named else 0
    for document in documents:
        commands = list(_judging(document, block.page, tmp_path))
        assert commands or document.get("kind") in _UNJUDGED, "no test knows what this is"
        for command in commands:
            assert run(command) == expected, capsys.readouterr()


@pytest.mark.parametrize("page", sorted(GENERATED), ids=lambda page: page.stem)
def test_the_blocks_of_a_generated_page_can_be_read(page: Path) -> None:
    """Its examples of rules are those that tests/unit/validators/test_rule_examples.py judges."""
    for block in blocks(page):
        assert block.language in ("yaml", "text", "")
        if block.language == "yaml":
            assert list(yaml.load_all(block.text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))), block.line


def _judging(document: dict[str, Any], page: str, folder: Path) -> Iterator[list[str]]:
    """Return the commands that judge a document: a configuration, a section of one, a chart's values or a manifest."""
    file = folder / "file.yaml"
    if "configuration" in document and set(document) <= {"image", "configuration"}:
        document = document["configuration"]
    if document.get("kind") == _HEAD["kind"] or set(document) <= _SECTIONS:
        profiles = document.get("scheduler", {}).get("profiles", [])
        if {profile["name"] for profile in profiles} & _OF_OTHER_PACKAGES:
            document = {**document, "scheduler": {}}
        file.write_text(yaml.safe_dump(_HEAD | document))
        yield ["config", "check", str(file)]
    elif document.get("kind") == "WorkloadShape":
        file.write_text(yaml.safe_dump_all([_HEAD, document]))
        yield ["config", "check", str(file)]
    elif document.get("kind") == "PodCliqueSet":
        file.write_text(yaml.safe_dump(document))
        configurations = [one.text for one in blocks(ROOT / page) if one.text.startswith("# rollcall.yaml\n")]
        config = folder / "rollcall.yaml"
        config.write_text("".join(configurations[:1]))
        yield ["check", *(["--config", str(config)] if configurations else []), str(file)]
    elif document.get("kind") == "ClusterTopologyBinding":
        file.write_text(yaml.safe_dump(document))
        yield ["render", str(file)]
    elif document.get("kind") in {"LeaderWorkerSet", "Job", "Queue", "RayCluster", "PodGroup", "TrainJob"}:
        file.write_text(yaml.safe_dump(document))
        yield ["check", str(file)]


@pytest.mark.parametrize("block", fenced("json", "toml", "python"))
def test_a_block_in_another_language_can_be_read(block: Block) -> None:
    readers: dict[str, Callable[[str], object]] = {"json": json.loads, "toml": tomllib.loads, "python": ast.parse}
    assert readers[block.language](block.text)
