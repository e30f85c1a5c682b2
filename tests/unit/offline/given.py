"""Reports on manifests, made as `rollcall check` makes them."""

from __future__ import annotations

from dataclasses import replace

from webhook.config.defaults import default_settings, force_scheduler
from webhook.errors import InputError
from webhook.model.facts import NO_FACTS
from webhook.offline.fixed_files import add_fixes
from webhook.offline.judgement import judge
from webhook.offline.manifests import read_text
from webhook.offline.report import Report
from webhook.offline.report_summary import ReportOptions

OPTIONS = ReportOptions(version="1.2.3", documentation="")
PUBLISHED = ReportOptions(version="1.2.3", documentation="https://example.com/docs")

# Two errors and a warning, a fact that is unknown, and a value with everything that a format must escape.
HOSTILE = '50%, <b>|`::error::x` @you https://a.example "q"'
REFUSED = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata:
  name: demo
  annotations:
    grove.io/mnnvl-group: train
    scheduling.grove.io/koordinator-quota: a
spec:
  replicas: 1
  template:
    cliques:
    - name: er
      labels:
        koordinator.sh/qosClass: "ls"
      spec:
        replicas: 2
        podSpec:
          containers:
          - name: main
            image: example.com/main
            resources: {limits: {nvidia.com/gpu: "8"}}
    - name: worker
      spec:
        replicas: 2
        podSpec:
          containers:
          - {name: main, image: example.com/main}
        roleName: worker
"""
FINE = """\
---
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: fine}
spec:
  replicas: 1
  template:
    cliques:
    - name: worker
      spec:
        replicas: 2
        podSpec:
          containers:
          - {name: main, image: example.com/main}
        roleName: worker
"""


def report_on(text: str, file: str = "deploy/a b.yaml", *, suppress: bool = True, fixes: bool = True) -> Report:
    """Return the report on a text, judged for koord-scheduler."""
    settings = replace(force_scheduler(default_settings(), "koord-scheduler"), standalone=True)
    report = Report(suppress=suppress)
    for document in read_text(text, file):
        report.add(document, judge(document.manifest, NO_FACTS, settings))
    if fixes:
        add_fixes(report, lambda _: NO_FACTS, settings)
    return report


def with_unreadable(report: Report) -> Report:
    """Return the report with a file that could not be read."""
    report.unreadable.append(InputError("b.yaml", "is not YAML: 100%", 2, 1))
    return report
