"""The page `docs/reference/doctor.md`, made from the checks, and from what each reports about its example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import cleandoc

from webhook.doctor.checking import Check, examine

_HEAD = """\
# What `rollcall doctor` looks at

Made by `rollcall doctor --output markdown`. `rollcall doctor` reads the cluster that it is pointed at, once, with the
rights of whoever runs it, and says what is wrong with the installation there, why it matters and what to do. It stores
nothing: two creations are tried as dry runs.

* **error**: gangs are refused, held or torn, or will be. Exit code 1.
* **warning**: they may be one day. Exit code 1 with `--strict`.
* **note**: worth knowing, and never a failure.
* **not known**: what the check needs could not be read; the right that is missing is named. Exit code 3, where nothing
  is wrong besides.

It is judged by the configuration that Rollcall runs with, in the ConfigMap that the Deployment `rollcall` mounts, or by
the file that `--config` names: where that cannot be read, or to see what another would change. Without either every
scheduler that there is a backend for counts as enabled, and it is said so. `-o json` prints the same for machines:
`well`, `checks`, `findings` and `notKnown`. Whoever may read everything and create PodCliqueSets (a cluster's
administrator) has every right that it takes; Secrets are read only where no endpoint can be reached, and of Rollcall's
own the certificates alone are kept.
"""


def reference(checks: Iterable[Check]) -> str:
    """Return the page: the checks as a table and one by one."""
    every = tuple(checks)
    lines = [_HEAD, "| check | | looks at |", "|---|---|---|"]
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
    yield from ("", "Told as:", "", "```text")
    for found in examine(check.ill(), [check]).found:
        told = found.symptom
        yield f"{found.level} {found.check}"
        yield from (f"    where  {told.where}", f"    found  {told.found}")
        yield from (f"    why    {told.why}", f"    do     {told.remedy}")
    yield "```"
