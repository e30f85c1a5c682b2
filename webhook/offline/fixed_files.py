"""The smallest edits of refused objects in their files: `rollcall check` shows them, and writes them with `--fix`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from io import StringIO
from pathlib import Path

from webhook.config.settings import Settings
from webhook.errors import InputError
from webhook.model.admission_request import value_at
from webhook.model.facts import ClusterFacts
from webhook.offline.judgement import Judgement
from webhook.offline.manifests import BYTE_ORDER_MARK, STDIN, Document
from webhook.offline.positions import Fix, TextEdit, applied_to
from webhook.offline.report import FindingPlace, Report
from webhook.offline.whole_files import replace_file, require_replaceable

# A search judges an object up to 120 times. A run with more refused objects says so, and stays short.
MAX_SEARCHED = 100


def fix_of(document: Document, judgement: Judgement, facts: ClusterFacts, settings: Settings) -> Fix | None:
    """Returns the smallest edit after which nothing refuses the object; None if none was found. A recorded review has
    none: its object is no longer in a file that anyone applies.
    """
    if judgement.verdict.allowed or judgement.at.parts[:1] == ("request",):
        return None
    _, raw = value_at(document.read_again(), judgement.at)
    if not isinstance(raw, dict):
        return None
    # Most files are not refused, and the search for an edit is all of `webhook.offline.smallest_edit`.
    from webhook.offline.smallest_edit import changes_for  # noqa: PLC0415

    changes = changes_for(raw, judgement.namespace, facts, settings)
    if not changes:
        return None
    settings.proceed()
    edits = document.edits(judgement.at, changes)
    return Fix(document.source, judgement.verdict.scheduler or "", changes, edits)


def add_fixes(
    report: Report, facts_for: Callable[[Document], ClusterFacts], settings: Settings, most: int | None = MAX_SEARCHED
) -> None:
    """Adds to each refusal of the report the edit that removes it, for the first refused objects, or for all. An
    object with a suppressed refusal has none: its edit would remove what its author accepts.
    """
    accepted = {id(entry.place.judgement) for entry in report.findings if entry.refuses and entry.suppression}
    fixes: dict[int, Fix | None] = {}
    last: Document | None = None
    for index, entry in enumerate(report.findings):
        document, judgement = entry.place.document, entry.place.judgement
        if not entry.refuses or id(judgement) in accepted or not isinstance(document, Document):
            continue
        if last is not None and last is not document:
            last.forget()
        last = document
        if id(judgement) not in fixes:
            if len(fixes) == most:
                report.all_searched = False
                break
            fixes[id(judgement)] = fix_of(document, judgement, facts_for(document), settings)
        report.findings[index] = entry._replace(fix=fixes[id(judgement)])
    if last is not None:
        last.forget()


@dataclass(slots=True)
class FixedFile:
    """A file whose refused objects have edits. `fixes` has the place of each object."""

    path: Path
    # As the user named it.
    name: str
    text: str
    edits: set[TextEdit] = field(default_factory=set)
    fixes: list[tuple[FindingPlace, Fix]] = field(default_factory=list)

    @property
    def fixed_text(self) -> str:
        return applied_to(self.text, self.edits)

    def diff(self) -> Iterator[str]:
        """Yields the lines of a unified diff, which `git apply` and `patch` take."""
        # `splitlines` also ends lines at characters that `git apply` and `patch` take for a part of the line.
        before, after = (list(StringIO(text, newline="\n")) for text in (self.text, self.fixed_text))
        names = (self.name, self.name) if Path(self.name).is_absolute() else (f"a/{self.name}", f"b/{self.name}")
        for line in unified_diff(before, after, *names):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"

    def require_writable(self) -> None:
        """Raises `InputError` if the file may not be written, or is no longer the one that was judged."""
        try:
            require_replaceable(self.path)
            self._mark()
        except OSError as error:
            raise self._unwritten(error) from None

    def write(self) -> int:
        """Replaces the file, or the file that a link names, and keeps owner and permissions. Returns how many other
        names (hard links) keep the old content. Raises `InputError`, also if the file has changed since it was judged.
        """
        try:
            content = (self._mark() + self.fixed_text).encode()
            names = self.path.stat().st_nlink
            # In a container of a pipeline the caller is root, and the file is a user's. An editor may have saved the
            # file since: it is compared again when all else is done.
            replace_file(self.path, content, like=self.path, allowed=self._mark)
        except OSError as error:
            raise self._unwritten(error) from None
        return names - 1

    def _mark(self) -> str:
        """Returns the byte order mark of the file, or nothing. Raises `InputError` if the file was changed."""
        content = self.path.read_bytes()
        mark = BYTE_ORDER_MARK if content.startswith(BYTE_ORDER_MARK.encode()) else ""
        if content != (mark + self.text).encode():
            raise InputError(self.name, "was changed while it was checked; nothing is written, check it again")
        return mark

    def _unwritten(self, error: OSError) -> InputError:
        return InputError(self.name, f"cannot be written: {error.strerror}")


def fixed_files(report: Report) -> list[FixedFile]:
    """Returns the files of a report with fixes, in the order of the report."""
    files: dict[Path | str, FixedFile] = {}
    seen: set[int] = set()
    for entry in report.findings:
        fix, document, judgement = entry.fix, entry.place.document, entry.place.judgement
        if fix is None or not fix.edits or not isinstance(document, Document) or id(judgement) in seen:
            continue
        seen.add(id(judgement))
        # One file may have been named twice.
        path = Path(document.source) if document.source == STDIN else Path(document.source).resolve()
        file = files.setdefault(path, FixedFile(path, document.source, document.text))
        if file.text == document.text and not file.edits.issuperset(fix.edits):
            file.edits.update(fix.edits)
            file.fixes.append((FindingPlace(document, judgement), fix))
    return list(files.values())
