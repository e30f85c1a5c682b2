"""The page `docs/reference/doctor.md`, made from the checks, and from what each reports about its example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import cleandoc

from webhook.doctor.checking import Check, examine

_HEAD = """\
# What `rollcall doctor` checks

Made by `rollcall doctor --output markdown`. `rollcall doctor` reads the cluster once, with the rights of the user who
runs it. It reports what is wrong with the installation, why it matters and what to do. It stores nothing: some objects
are created as dry runs.

* **error**: gangs are refused, do not start, or start in part, now or soon. Exit code 1.
* **warning**: this may happen one day. Exit code 1 with `--strict`.
* **note**: worth knowing, and never a failure.
* **not known**: what the check needs could not be read; the missing right is named. Exit code 3 if nothing else is
  wrong.

The checks use the configuration that Rollcall runs with, from the ConfigMap that the Deployment `rollcall` mounts. If
it cannot be read, or to see the effect of another one, name a file with `--config`. Without either, every scheduler
with a backend counts as enabled, and the output says so. `-o json` prints the same for programs: `well`, `checks`,
`findings` and `notKnown`. A user who may read everything and create PodCliqueSets and Pods, such as a cluster
administrator, has every right that is needed. Secrets are read only if no endpoint can be reached, and of Rollcall's
own Secrets only the certificates are kept.
"""


def reference(checks: Iterable[Check]) -> str:
    """Return the page: the checks as a table and one by one."""
    every = tuple(checks)
    lines = [_HEAD, "| check | level | what must hold |", "|---|---|---|"]
    lines += [f"| [{one.id}](#{_anchor(one)}) | {one.level} | {_summary(one)} |" for one in every]
    for one in every:
        lines += ["", *_section(one)]
    return "\n".join(lines) + "\n"


def paragraphs(check: Check) -> list[str]:
    """Return the check's documentation as paragraphs of one line each; the last one is its source."""
    return [" ".join(paragraph.split()) for paragraph in cleandoc(check.documentation).split("\n\n")]


def _summary(check: Check) -> str:
    first = paragraphs(check)[0]
    return first.partition(". ")[0].partition(": ")[0].rstrip(".")


def _anchor(check: Check) -> str:
    return check.id.replace("/", "")


def _section(check: Check) -> Iterator[str]:
    yield f"## {check.id}"
    for paragraph in paragraphs(check):
        yield ""
        yield paragraph
    yield from ("", "Output:", "", "```text")
    for found in examine(check.fails(), [check]).found:
        told = found.symptom
        yield f"{found.level} {found.check}"
        yield from (f"    where  {told.where}", f"    found  {told.found}")
        yield from (f"    why    {told.why}", f"    do     {told.remedy}")
    yield "```"
