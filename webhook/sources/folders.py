"""Folders above files, and which of them stand for clusters of their own, without I/O."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

# A file and the folders that it is in, the nearest first.
Scopes = Sequence[str]
# What stands for every file.
EVERYWHERE = "/"


def scopes_of(source: str) -> Scopes:
    """Return a file and the folders that it is in, the nearest first."""
    path = PurePath(os.path.abspath(source))  # noqa: PTH100 - links are not followed, as the user named the files
    return list(dict.fromkeys((str(path), *map(str, path.parents), EVERYWHERE)))


def areas(scopes: Mapping[str, Scopes], objects: Iterable[Iterable[str]]) -> dict[str, str]:
    """Return for each file the widest folder in which no object stands in two folders; nothing if none does at all.
    `objects` are the files of each object.
    """
    mixed: set[str] = set()
    for sources in objects:
        folders = {tuple(scopes[source][1:]) for source in sources}
        if len(folders) > 1:
            counts = Counter(scope for folder in folders for scope in folder)
            mixed.update(scope for scope, count in counts.items() if count > 1)
    if not mixed:
        return {}
    return {
        source: [scope for scope in every if scope not in mixed or scope == every[0]][-1]
        for source, every in scopes.items()
    }


def roots(folders: Iterable[Scopes]) -> dict[str, str | None]:
    """Return the topmost of some folders, for itself and for each folder above; None above several. Each folder is
    given with those above it.
    """
    every = {tuple(folder) for folder in folders if folder}
    nearest = {folder[0] for folder in every}
    found: dict[str, str | None] = {}
    for folder in every:
        if nearest.isdisjoint(folder[1:]):
            for scope in folder:
                found[scope] = None if scope in found else folder[0]
    return found
