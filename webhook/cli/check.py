"""`rollcall check`: judge manifests as the webhook would, with file, line and column of each finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from webhook.cli.check_options import (
    BaselineFile,
    CheckFormat,
    CheckOutput,
    Exclude,
    FailOns,
    Ignore,
    ListIgnored,
    NoSuppress,
    Quiet,
    Select,
    ShowFixes,
    Statistics,
    Strict,
    WriteBaseline,
    WriteFixes,
    baseline_of,
    failing,
    selection_of,
    without,
    write_baseline,
)
from webhook.cli.judging_configuration import JudgingConfiguration
from webhook.cli.live import Live, known_facts
from webhook.cli.options import (
    Facts,
    Inputs,
    Kubeconfig,
    KubeContext,
    Kubernetes,
    Scheduler,
    SchemaFiles,
    assuming,
    settings_of,
)
from webhook.cli.output import CLEAN, REFUSED, UNREADABLE, tell
from webhook.errors import InputError, ReviewError, TooLarge

if TYPE_CHECKING:
    from webhook.config.settings import Settings
    from webhook.model.facts import ClusterFacts
    from webhook.offline.levels import FailOn
    from webhook.offline.report import Report
    from webhook.sources.worlds import Worlds


def check(  # noqa: PLR0913 - one parameter for each option
    paths: Inputs,
    *,
    scheduler: Scheduler = None,
    facts: Facts = None,
    kubernetes: Kubernetes = None,
    schemas: SchemaFiles = None,
    live: Live = False,
    kubeconfig: Kubeconfig = None,
    context: KubeContext = None,
    config: JudgingConfiguration = None,
    fail_on: FailOns = None,
    strict: Strict = False,
    select: Select = None,
    ignore: Ignore = None,
    exclude: Exclude = None,
    baseline: BaselineFile = None,
    write_to: WriteBaseline = None,
    no_suppress: NoSuppress = False,
    quiet: Quiet = False,
    statistics: Statistics = False,
    list_ignored: ListIgnored = False,
    fix: WriteFixes = False,
    diff: ShowFixes = False,
    output: CheckOutput = CheckFormat.TEXT,
) -> None:
    """Judge manifests as the webhook would, without a cluster, or with the facts of one.

    Reads YAML, JSON, folders, the output of kustomize build and recorded AdmissionReviews. Judges PodCliqueSets,
    opted-in TrainJobs, JobSets, LeaderWorkerSets and Jobs, gang objects, and pods. All files are judged together: a
    TrainJob finds its runtime in another file.

    What is known of the cluster comes from `--facts`, for which `rollcall facts` writes a folder, or with `--live` from
    the cluster itself. A rule that lacks a fact is *not judged*, and the line says how to supply the fact. An object
    that no rule judged is *not judged* either, such as a workload that is not opted in; the line says what changes
    that.

    A finding is accepted by the comment `# rollcall:ignore RULE: reason` at or above its line, or by the annotation
    `rollcall.dev/ignore: "RULE: reason"` of its object. It stays in the report and does not fail the check. The webhook
    refuses the object all the same, and no rule that fails closed can be suppressed.

    `--fix` writes the smallest edit of each refused PodCliqueSet into its file, and leaves comments, order and quoting
    as they are. An object with a suppressed error is not edited. The report is about what is left.

    Exit code 0: nothing is refused. 1: something is refused, or something else that --fail-on names. 2: something
    cannot be read. 3: something could not be evaluated.

    **Examples**

    - `rollcall check --scheduler koord-scheduler deploy/`
    - `kustomize build overlays/prod | rollcall check --facts cluster/ -`
    - `rollcall check --live --context prod set.yaml`
    - `rollcall check --config rollcall.yaml --fail-on warning -o sarif deploy/ > rollcall.sarif`
    - `rollcall check --baseline known.json --exclude vendor -o github deploy/`
    - `rollcall check --config rollcall.yaml --diff deploy/`
    """
    from webhook.cli.check_output import WITH_FIXES, print_report
    from webhook.offline.report import Report
    from webhook.reports.options import ReportOptions
    from webhook.reports.rule_pages import rules_by_id
    from webhook.sources.facts import with_field_names
    from webhook.sources.fixes import add_fixes

    if fix or diff:
        from webhook.cli.check_fixes import print_diff, require_fixable, write_fixes

        require_fixable(paths, output, fix=fix, diff=diff)
    settings = settings_of(config, scheduler)
    known = assuming(kubernetes, known_facts(facts, settings, kubeconfig, context, live=live), settings)
    selection = selection_of(select, ignore)
    if write_to is not None and baseline is not None:
        raise typer.BadParameter("--baseline and --write-baseline exclude each other")
    accepted = None if no_suppress else baseline_of(baseline)
    known = with_field_names(known, schemas or ())
    inputs = without(paths, exclude)

    def judged() -> tuple[Report, Worlds]:
        report = Report(selection, suppress=not no_suppress, baseline=accepted, rules=rules_by_id())
        return report, judge_inputs(inputs, report, known, settings)

    report, worlds = judged()
    options = ReportOptions(failing(fail_on, strict=strict), quiet, statistics, list_ignored)
    if diff:
        add_fixes(report, worlds.of, settings, most=None)
        print_diff(report)
    elif fix and not report.unreadable:
        add_fixes(report, worlds.of, settings, most=None)
        if write_fixes(report):
            report, worlds = judged()
    if write_to is not None:
        write_baseline(write_to, report)
    if not diff:
        if output in WITH_FIXES:
            add_fixes(report, worlds.of, settings)
        print_report(report, options, output)
    for reason in report.unreadable:
        tell(str(reason))
    raise typer.Exit(_exit_code(report, options.fail_on, baseline_written=write_to is not None))


def _exit_code(report: Report, fail_on: frozenset[FailOn], *, baseline_written: bool) -> int:
    if report.unreadable:
        return UNREADABLE
    if baseline_written:
        left = any(entry.fails(fail_on) and entry.finding.fails_closed for entry in report.findings)
        return REFUSED if left else CLEAN
    return REFUSED if report.failed(fail_on) else CLEAN


def judge_inputs(inputs: list[str], report: Report, known: ClusterFacts, settings: Settings) -> Worlds:
    """Read and judge the inputs into `report`, and return the facts with those of the inputs. Raises `InputError`."""
    from webhook.cli.inputs import read_inputs
    from webhook.clock import MACHINE_CLOCK
    from webhook.offline.judgement import judge
    from webhook.sources.worlds import Worlds

    documents, report.unreadable = read_inputs(inputs)
    # Files that are applied together are judged together: the labels of a namespace, the parent of a PodGroup.
    worlds = Worlds(known, documents, settings.kinds)
    report.remark(worlds.remarks)
    now = MACHINE_CLOCK.now()
    for document in documents:
        try:
            report.add(document, judge(document.manifest, worlds.of(document), settings, now))
        except (ReviewError, TooLarge) as error:
            report.unreadable.append(InputError(document.source, str(error), document.line, 1))
    return worlds
