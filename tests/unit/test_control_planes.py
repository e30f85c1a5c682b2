"""The Go modules of the cluster tests: those that are built with the Kubernetes of another one have its versions, so
that what both are made of is compiled once.
"""

from __future__ import annotations

import re

import pytest

from tests.reach import ROOT

MODULES = ROOT / "tests/e2e/controlplane"
SHARES = re.compile(r"// The versions that (\S+) has, so that what both are made of is compiled once\.\n")
REPLACED = re.compile(r"^\s*(?:replace )?(\S+)(?: v\S+)? => (\S+) (v\S+)$", re.MULTILINE)
REQUIRED = re.compile(r"^\s*(?:require )?(\S+\.\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)


def text_of(module: str) -> str:
    return (MODULES / module / "go.mod").read_text()


def versions_of(module: str) -> dict[str, str]:
    """The version of each Go module in a module, as replaced."""
    text = text_of(module)
    return dict(REQUIRED.findall(text)) | {name: version for name, _, version in REPLACED.findall(text)}


SHARING = [
    (module.name, found[1]) for module in sorted(MODULES.iterdir()) if (found := SHARES.search(text_of(module.name)))
]


@pytest.mark.parametrize(("module", "base"), SHARING)
def test_a_module_that_shares_what_is_compiled_has_the_versions_of_the_other(module: str, base: str) -> None:
    own, others = versions_of(module), versions_of(base)
    assert {name: version for name, version in own.items() if others.get(name, version) != version} == {}


def test_every_scheduler_and_controller_shares_what_is_compiled() -> None:
    alone = {module.name for module in MODULES.iterdir()} - {module for module, _ in SHARING}
    assert {name.partition("-")[0] for name in alone} == {"kube"}
