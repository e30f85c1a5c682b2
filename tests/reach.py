"""Which tests a change can reach: those that import what changed, directly or through other modules.

`python -m tests.reach [REVISION]` prints their paths, a line each, nearest first; nothing if no test is reached. A
change is what differs from the revision (HEAD by default) in the checkout, with files that git does not know yet.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import grimp

from webhook.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
# What the inner loop runs: the other folders have scripts of their own.
LOOP = ("tests/unit", "tests/conformance", "tests/fuzz")
# Whatever these say holds for every test.
EVERYWHERE = ("pyproject.toml", "requirements-dev.lock", "tests/conftest.py", "scripts/environment.sh", "scripts/test")
# The tests that read files which are not Python: by the beginning of the path, the longest first.
READERS = {
    "webhook/installation/": ("tests/unit/installation", "tests/unit/documentation"),
    "webhook/server/page/": ("tests/unit/server",),
    "webhook/": ("tests/unit",),
    "manifests/": ("tests/unit/installation", "tests/unit/documentation", "tests/unit/cli", "tests/unit/config"),
    "examples/": ("tests/conformance", "tests/unit/documentation"),
    "tests/fuzz/": ("tests/fuzz",),
    "tests/unit/": (),
    "tests/": ("tests/unit",),
    "scripts/": ("tests/unit/test_supported_pythons.py", "tests/unit/cli", "tests/unit/documentation"),
    "": ("tests/unit/documentation", "tests/unit/test_supported_pythons.py"),
}


def changed_paths(revision: str) -> list[str]:
    """Returns the paths that differ from `revision`. Raises `CalledProcessError` if git knows no such revision."""
    differing = _git("diff", "--name-only", "--no-renames", "-z", "--end-of-options", revision, "--")
    return sorted({*differing, *_git("ls-files", "--others", "--exclude-standard", "-z")})


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for path in done.stdout.split("\0") if path]


def import_graph() -> grimp.ImportGraph:
    """Returns who imports whom in the checkout."""
    sys.path.insert(0, str(ROOT))
    try:
        graph = grimp.build_graph("webhook", "tests", cache_dir=None)
    finally:
        sys.path.remove(str(ROOT))
    # Commands are imported when they run.
    for command in COMMANDS.values():
        graph.add_import(importer="webhook.cli.commands", imported=f"webhook.cli.{command.module}")
    return graph


def reached_tests(paths: Iterable[str], graph: grimp.ImportGraph) -> list[str]:
    """Returns the files and folders of tests that a change of `paths` can reach, nearest first."""
    changed = sorted(set(paths))
    if any(path in EVERYWHERE for path in changed):
        return list(LOOP)
    distances: dict[str, int] = {}
    for path in changed:
        for test, distance in _tests_of(path, graph):
            distances[test] = min(distance, distances.get(test, distance))
    return [test for test in sorted(distances, key=lambda test: (distances[test], test)) if (ROOT / test).exists()]


def _tests_of(path: str, graph: grimp.ImportGraph) -> Iterator[tuple[str, int]]:
    if not path.endswith(".py") or not path.startswith(("webhook/", "tests/")):
        yield from ((test, 0) for test in _readers_of(path))
        return
    if path.endswith("/conftest.py"):
        yield str(PurePosixPath(path).parent), 0
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for reached, distance in _importers(module, graph):
        test = f"{reached.replace('.', '/')}.py"
        if test.startswith(LOOP) and PurePosixPath(test).name.startswith("test_"):
            yield test, distance
        elif test.startswith(LOOP) and test.endswith("/conftest.py"):
            yield str(PurePosixPath(test).parent), distance


def _readers_of(path: str) -> tuple[str, ...]:
    return next(tests for beginning, tests in READERS.items() if path.startswith(beginning))


def _importers(module: str, graph: grimp.ImportGraph) -> Iterator[tuple[str, int]]:
    """Yields the module and all that import it, each with the shortest number of imports in between."""
    if module not in graph.modules:
        # It was deleted: who imported it fails, and is a change itself.
        return
    seen, nearest = {module}, [module]
    distance = 0
    while nearest:
        yield from ((name, distance) for name in nearest)
        following = {name for near in nearest for name in graph.find_modules_that_directly_import(near)} - seen
        seen |= following
        nearest, distance = sorted(following), distance + 1


def main(arguments: Sequence[str]) -> None:
    """Prints the tests, or ends with exit code 2 and the message of git."""
    try:
        changed = changed_paths(*arguments or ["HEAD"])
    except subprocess.CalledProcessError as error:
        sys.stderr.write(error.stderr)
        sys.exit(2)
    sys.stdout.writelines(f"{test}\n" for test in reached_tests(changed, import_graph()))


if __name__ == "__main__":
    main(sys.argv[1:])
