"""`rollcall check --fix` and `--diff`: the smallest edits of all refused objects, as new files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from io import StringIO
from pathlib import Path

from webhook.errors import InputError
from webhook.offline.fix import Fix, TextEdit, applied_to
from webhook.offline.report import Place, Report
from webhook.sources.manifests import BYTE_ORDER_MARK, STDIN, Document
from webhook.sources.whole_files import replace_file, require_replaceable


@dataclass(slots=True)
class FixedFile:
    """A file whose refused objects have edits. `fixes` has the place of each object."""

    path: Path
    # As the user named it.
    name: str
    text: str
    edits: set[TextEdit] = field(default_factory=set)
    fixes: list[tuple[Place, Fix]] = field(default_factory=list)

    @property
    def fixed_text(self) -> str:
        """The text with the edits."""
        return applied_to(self.text, self.edits)

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff, which `git apply` and `patch` take."""
        # `splitlines` also ends lines at characters that `git apply` and `patch` take for a part of the line.
        before, after = (list(StringIO(text, newline="\n")) for text in (self.text, self.fixed_text))
        names = (self.name, self.name) if Path(self.name).is_absolute() else (f"a/{self.name}", f"b/{self.name}")
        for line in unified_diff(before, after, *names):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"

    def require_writable(self) -> None:
        """Raise `InputError` if the file may not be written, or is no longer the one that was judged."""
        try:
            require_replaceable(self.path)
            self._mark()
        except OSError as error:
            raise self._unwritten(error) from None

    def write(self) -> int:
        """Replace the file, or the file that a link names, with its owner and permissions. Return how many other names
        (hard links) the file had: they keep the old content. Raises `InputError`, also if the file is no longer the one
        that was judged.
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
        """Return the byte order mark of the file, or nothing. Raises `InputError` if the file was changed."""
        content = self.path.read_bytes()
        mark = BYTE_ORDER_MARK if content.startswith(BYTE_ORDER_MARK.encode()) else ""
        if content != (mark + self.text).encode():
            raise InputError(self.name, "was changed while it was checked; nothing is written, check it again")
        return mark

    def _unwritten(self, error: OSError) -> InputError:
        return InputError(self.name, f"cannot be written: {error.strerror}")


def fixed_files(report: Report) -> list[FixedFile]:
    """Return the files of a report with fixes, in the order of the report."""
    found: dict[Path | str, FixedFile] = {}
    seen: set[int] = set()
    for entry in report.findings:
        fix, document, judgement = entry.fix, entry.place.document, entry.place.judgement
        if fix is None or not fix.edits or not isinstance(document, Document) or id(judgement) in seen:
            continue
        seen.add(id(judgement))
        # One file may have been named twice.
        path = Path(document.source) if document.source == STDIN else Path(document.source).resolve()
        file = found.setdefault(path, FixedFile(path, document.source, document.text))
        if file.text == document.text and not file.edits.issuperset(fix.edits):
            file.edits.update(fix.edits)
            file.fixes.append((Place(document, judgement), fix))
    return list(found.values())
