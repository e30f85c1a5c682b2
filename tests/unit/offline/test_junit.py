"""JUnit XML, by the elements and attributes of junit-10.xsd of Jenkins' xUnit plugin, which no package offers."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.unit.offline.given import FINE, HOSTILE, OPTIONS, REFUSED, report_on, with_unreadable
from webhook.offline.finding_details import FailOn
from webhook.offline.report_summary import ReportOptions
from webhook.offline.report_text import junit

_NUMBERS = {"tests", "failures", "errors"}
# What the schema allows in each element: attributes that must be there, those that may, and elements.
ALLOWED: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "disabled", *_NUMBERS}, {"testsuite"}),
    "testsuite": (
        {"tests"},
        {"name", "skipped", "time", "timestamp", "file", "failures", "errors"},
        {"testcase", "properties", "system-out", "system-err"},
    ),
    "testcase": (
        {"name"},
        {"classname", "file", "line", "time", "status"},
        {"failure", "error", "skipped", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def parsed(text: str, options: ReportOptions = OPTIONS) -> ElementTree.Element:
    return ElementTree.fromstring(junit(with_unreadable(report_on(text)), options).encode())  # noqa: S314 - our own


@pytest.mark.parametrize("text", [REFUSED + FINE, REFUSED.replace("ls", HOSTILE.replace('"', "'")), FINE])
def test_only_elements_and_attributes_of_the_schema_are_written(text: str) -> None:
    waiting = [parsed(text)]
    assert waiting[0].tag == "testsuites"
    while waiting:
        element = waiting.pop()
        required, optional, below = ALLOWED[element.tag]
        assert required <= set(element.keys()) <= required | optional
        assert {child.tag for child in element} <= below
        waiting += element


def outcomes(root: ElementTree.Element) -> dict[str, str]:
    return {case.attrib["name"]: case[0].tag if len(case) else "passed" for case in root.iter("testcase")}


def test_a_finding_is_a_case_and_so_is_an_object_without_findings() -> None:
    assert outcomes(parsed(REFUSED + FINE)) == {
        "PodCliqueSet default/demo: koordinator/mnnvl at metadata.annotations[grove.io/mnnvl-group]": "failure",
        "PodCliqueSet default/demo: koordinator/qos-class at "
        "spec.template.cliques[0].labels[koordinator.sh/qosClass]": "failure",
        # A warning does not fail the check.
        "PodCliqueSet default/demo: grove/clique-name-suffix at spec.template.cliques[0].name": "system-out",
        "PodCliqueSet default/demo: koordinator/quota at "
        "metadata.annotations[scheduling.grove.io/koordinator-quota]": "skipped",
        "PodCliqueSet default/fine": "passed",
        "can be read": "error",
    }


def test_what_fails_the_check_is_a_failure() -> None:
    strict = ReportOptions(frozenset(FailOn))
    found = outcomes(parsed(REFUSED, strict))
    assert set(found.values()) == {"failure", "error"}


def test_numbers_are_those_of_the_cases() -> None:
    root = parsed(REFUSED + FINE)
    assert root.attrib == {"name": "rollcall", "tests": "6", "failures": "2", "errors": "1"}
    assert [suite.attrib for suite in root] == [
        {"name": "b.yaml", "tests": "1", "failures": "0", "errors": "1", "skipped": "0"},
        {"name": "deploy/a b.yaml", "tests": "5", "failures": "2", "errors": "0", "skipped": "1"},
    ]


def test_a_case_has_the_file_for_gitlab_and_the_remedy_in_its_text() -> None:
    case = next(case for case in parsed(REFUSED).iter("testcase") if "mnnvl" in case.attrib["name"])
    assert (case.attrib["classname"], case.attrib["file"], case.attrib["line"]) == (
        "deploy/a b.yaml",
        "deploy/a b.yaml",
        "6",
    )
    text = case[0].text or ""
    assert text.splitlines()[:2] == ["error: koordinator/mnnvl", "place: deploy/a b.yaml:6:5"]
    assert text.splitlines()[-1].startswith("do: ")


def test_characters_that_xml_cannot_have_are_replaced() -> None:
    hostile = REFUSED.replace('"ls"', '"a\\u0001\\uFFFE]]><x>"')
    assert 'found: "a' in "".join(parsed(hostile).itertext())
