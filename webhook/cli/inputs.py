"""Read the manifests that a command is given: files, folders and standard input.

An input without a manifest is an error: `kustomize build | rollcall check -` must not end green because kustomize
failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from webhook.cli.options import inputs_of
from webhook.errors import InputError
from webhook.sources.manifests import NO_MANIFEST, STDIN, Document, read_file, read_standard_input


def documents_of(names: Sequence[str]) -> list[Document]:
    """Return every document that the arguments name. Raises `InputError` for the first that cannot be read."""
    documents, unreadable = read_inputs(names)
    if unreadable:
        raise unreadable[0]
    return documents


def read_inputs(names: Sequence[str]) -> tuple[list[Document], list[InputError]]:
    """Return every document that can be read, and an error for each input that cannot, or has no manifest."""
    documents: list[Document] = []
    unreadable: list[InputError] = []
    # A file with only comments is an error only if nothing else is read: a template may produce one.
    comments: list[InputError] = []
    for name in names:
        found, errors = _read(name)
        if not found and not errors:
            empty = InputError(*_nothing_in(name))
            (comments if _has_text(Path(name)) else errors).append(empty)
        documents += found
        unreadable += errors
    return documents, unreadable if documents or unreadable else comments


def _read(name: str) -> tuple[list[Document], list[InputError]]:
    documents: list[Document] = []
    unreadable: list[InputError] = []
    try:
        inputs = list(inputs_of([name]))
    except InputError as error:
        return [], [error]
    for path in inputs:
        try:
            documents += read_file(path) if isinstance(path, Path) else read_standard_input()
        except InputError as error:
            unreadable.append(error)
    return documents, unreadable


def _nothing_in(name: str) -> tuple[str, str]:
    if Path(name).is_dir():
        return name, "has no manifest: its files are empty or have only comments"
    return STDIN if name == "-" else name, NO_MANIFEST


def _has_text(path: Path) -> bool:
    """Return whether it is a file that is not empty. Standard input and other pipes are read by now."""
    return path.is_file() and bool(path.read_bytes().strip())
