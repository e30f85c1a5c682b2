"""The formats of one line a finding, and what they escape."""

from __future__ import annotations

from tests.unit.offline.given import FINE, HOSTILE, OPTIONS, PUBLISHED, REFUSED, report_on, with_unreadable
from webhook.errors import InputError
from webhook.offline.finding_details import FailOn
from webhook.offline.report import Report
from webhook.offline.report_summary import ReportOptions
from webhook.offline.report_text import concise, github, markdown, tap, text_lines

ANNOTATED = REFUSED.replace("train\n", "train # rollcall:ignore koordinator/mnnvl: one rack\n")
WITH_HOSTILE = REFUSED.replace('"ls"', f"'{HOSTILE}'")


def test_github_gets_a_command_for_each_finding_errors_first() -> None:
    report = with_unreadable(report_on(REFUSED))
    found = list(github(report, OPTIONS))
    (finding,) = (entry.finding for entry in report.findings if entry.finding.rule == "koordinator/mnnvl")
    assert found[0] == (
        "::error file=deploy/a b.yaml,line=6,endLine=6,col=5,endColumn=25,title=koordinator/mnnvl::"
        f'PodCliqueSet default/demo: metadata.annotations[grove.io/mnnvl-group]: "train": {finding.why}; '
        f"{finding.remedy}"
    )
    assert [line.split(" ")[0] for line in found] == [
        "::error",
        "::error",
        "::warning",
        "::notice",
        "::error",
        "::notice",
    ]
    assert found[4] == "::error file=b.yaml,line=2,col=1,title=unreadable::is not YAML: 100%25"


def test_github_properties_escape_percent_colon_comma_and_new_lines() -> None:
    report = Report(unreadable=[InputError("a,b:c%\n::error::.yaml", "50%\r\nof it")])
    assert next(iter(github(report, OPTIONS))) == (
        "::error file=a%2Cb%3Ac%25\ufffd%3A%3Aerror%3A%3A.yaml,title=unreadable::50%25\ufffd%0Aof it"
    )


def test_github_shows_a_suppressed_finding_as_a_notice_with_the_reason() -> None:
    found = [line for line in github(report_on(ANNOTATED), OPTIONS) if "title=koordinator/mnnvl" in line]
    assert found[0].startswith("::notice ")
    assert "::suppressed: one rack%0APodCliqueSet default/demo" in found[0]


def test_markdown_shows_values_without_markup_links_or_mentions() -> None:
    row = next(line for line in markdown(report_on(WITH_HOSTILE), OPTIONS) if "qos-class" in line)
    assert row.count(" | ") == 4
    assert '`"50%, <b>\u2223\u2019::error::x\u2019 @you https://a.example \\"q\\""`' in row
    reason = "see <script> @you https://a.example [x](y) | z"
    row = next(
        line for line in markdown(report_on(ANNOTATED.replace("one rack", reason)), OPTIONS) if "suppressed: " in line
    )
    assert "see &lt;script&gt; @<!-- -->you https:<!-- -->//a.example \\[x\\]\\(y\\) \\| z" in row
    unread = Report(unreadable=[InputError("_WWW.a.example.yaml", "is broken")])
    assert "* \\_WWW<!-- -->.a.example.yaml: is broken" in list(markdown(unread, OPTIONS))


def test_markdown_links_rules_if_the_build_names_its_documentation() -> None:
    found = "\n".join(markdown(report_on(REFUSED), PUBLISHED))
    url = "https://example.com/docs/reference/rules/koord-scheduler.md#koordinatormnnvl"
    assert f"[`koordinator/mnnvl`]({url})" in found
    assert found.startswith("### ❌ Rollcall\n")
    assert next(iter(markdown(report_on(FINE), PUBLISHED))) == "### ✅ Rollcall"


def test_tap_has_a_point_for_each_case() -> None:
    found = list(tap(report_on(ANNOTATED + FINE), OPTIONS))
    assert found[:2] == ["TAP version 14", "1..5"]
    points = [line for line in found if line.startswith(("ok", "not ok"))]
    assert points[-1] == "ok 5 - deploy/a b.yaml: PodCliqueSet default/fine"
    assert points[0] == (
        "ok 1 - deploy/a b.yaml: PodCliqueSet default/demo: koordinator/mnnvl at "
        "metadata.annotations[grove.io/mnnvl-group] # SKIP suppressed: one rack"
    )
    assert [point.split(" - ")[0] for point in points] == ["ok 1", "ok 2", "ok 3", "not ok 4", "ok 5"]


def test_tap_says_why_a_file_or_a_rule_was_not_judged() -> None:
    report = Report(unreadable=[InputError("a.yaml", "is not YAML", 2, 1)])
    assert list(tap(report, OPTIONS))[2:] == [
        "not ok 1 - a.yaml: can be read",
        "  ---",
        '  message: "is not YAML"',
        '  at: {file: "a.yaml", line: 2}',
        "  ...",
    ]
    strict = ReportOptions(frozenset({FailOn.ERROR, FailOn.UNJUDGED}))
    found = list(tap(report_on(REFUSED), strict))
    point = next(index for index, line in enumerate(found) if "koordinator/quota" in line)
    assert found[point + 2].startswith('  message: "not judged: ')


def test_tap_escapes_what_would_be_a_directive() -> None:
    report = Report(unreadable=[InputError("a # SKIP \\.yaml", "is broken")])
    assert "not ok 1 - a \\# SKIP \\\\.yaml: can be read" in list(tap(report, OPTIONS))


def test_concise_is_one_line_a_finding() -> None:
    found = list(concise(report_on(ANNOTATED), OPTIONS))
    assert found[0].startswith("deploy/a b.yaml:6:5: error: koordinator/mnnvl PodCliqueSet default/demo: ")
    assert found[0].endswith(" (suppressed: one rack)")
    assert found[-1] == (
        "1 PodCliqueSet judged for koord-scheduler (--scheduler): 1 error, 1 warning, 1 check not judged, "
        "1 suppressed; rollcall explain FILE"
    )


def test_quiet_prints_only_what_fails_and_what_was_not_judged() -> None:
    quiet = ReportOptions(quiet=True)
    assert [line.split(": ")[1] for line in concise(report_on(REFUSED), quiet)] == ["error", "error", "not judged"]
    assert list(concise(report_on(FINE), quiet)) == []
    assert list(text_lines(report_on(FINE), quiet)) == []


def test_statistics_count_findings_by_rule_and_ignored_documents_are_listed() -> None:
    service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
    found = [
        str(line)
        for line in text_lines(report_on(REFUSED + service), ReportOptions(statistics=True, list_ignored=True))
    ]
    assert "     1  koordinator/mnnvl" in found
    assert "deploy/a b.yaml:30:1: ignored: Service" in found


def test_every_format_has_the_suppressed_finding() -> None:
    report = report_on(ANNOTATED)
    shown = [concise(report, OPTIONS), github(report, OPTIONS), markdown(report, OPTIONS), tap(report, OPTIONS)]
    lines = ["\n".join(lines) for lines in shown] + ["\n".join(map(str, text_lines(report, OPTIONS)))]
    assert all("koordinator/mnnvl" in text and "one rack" in text for text in lines)
