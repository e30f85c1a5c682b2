"""JUnit XML, as GitLab and Jenkins show it: a suite for each file, a case for each finding and each fine object.

The elements and attributes are those of the schema of Jenkins' xUnit plugin (junit-10.xsd). GitLab reads `classname`,
`name` and `file` of a case, and the text of its failure. A finding that does not fail the check is a case that passes,
with the finding as its output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from webhook.model.plain_text import plain
from webhook.offline.report import Report
from webhook.reports.cases import Case, Outcome, cases
from webhook.reports.options import ReportOptions

_ILLEGAL = re.compile("[\ud800-\udfff\ufffe\uffff]")
_ELEMENTS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}


def junit(report: Report, options: ReportOptions) -> str:
    """Return the report as an XML document."""
    root = Element("testsuites", {"name": "rollcall"})
    every = list(cases(report, options.fail_on))
    for file, found in groupby(every, key=lambda case: case.file):
        _suite(root, file, list(found))
    root.attrib |= {name: number for name, number in _numbers(every).items() if name != "skipped"}
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _suite(root: Element, file: str, found: list[Case]) -> None:
    suite = SubElement(root, "testsuite", {"name": _legal(file), **_numbers(found)})
    for case in found:
        place = {"file": _legal(file)} | ({"line": str(case.line)} if case.line else {})
        element = SubElement(suite, "testcase", {"classname": _legal(file), "name": _legal(case.name), **place})
        lines = "\n".join(map(_legal, case.details or (case.message,)))
        if case.outcome is not Outcome.PASSED:
            told = {"type": case.kind, "message": _legal(case.message)}
            SubElement(element, _ELEMENTS[case.outcome], told).text = lines
        elif case.details:
            SubElement(element, "system-out").text = lines


def _numbers(found: Iterable[Case]) -> dict[str, str]:
    outcomes = [case.outcome for case in found]
    return {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count(Outcome.FAILED)),
        "errors": str(outcomes.count(Outcome.ERROR)),
        "skipped": str(outcomes.count(Outcome.SKIPPED)),
    }


def _legal(text: str) -> str:
    """Return `text` without the characters that XML cannot have, not even as references."""
    return _ILLEGAL.sub("\ufffd", plain(text))
