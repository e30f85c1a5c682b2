"""`scripts/same-answers`: whether two checkouts of this project give the same answers, byte by byte.

`tools/answers.py` says what is asked. Each side is asked in processes of its own, with its own code.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "tools"
PARTS = ("commands", "reviews")
# At most so many lines of a difference are shown.
LINES = 60
# So many sets of answers are kept for later runs; each has some 40 MB.
_KEPT = 6
# Real manifests and recordings, beside the checkout unless the variable names a folder.
_GIVEN = {"ROLLCALL_SAMPLES": "samples", "ROLLCALL_RECORDINGS": "recordings", "ROLLCALL_CASES": "cases"}
# A rule in an answer: before the place of its finding, or as a value of JSON.
_RULE = re.compile(r"(?:\b|\")([a-z]+/[a-z][a-z-]*)(?= at |\")")

# A list of questions, and a question of it.
Key = tuple[str, str]
Answers = Mapping[Key, str]


# ---------------------------------------------------------------------------------------------------- comparing


class Difference(NamedTuple):
    """A question with two answers; None is that of a side that was not asked it."""

    key: Key
    before: str | None
    after: str | None


def differences(before: Answers, after: Answers) -> Iterator[Difference]:
    """Yields the questions whose answers differ, in the order of `before`, then those that only `after` has."""
    for key, answer in before.items():
        if answer != after.get(key):
            yield Difference(key, answer, after.get(key))
    for key, answer in after.items():
        if key not in before:
            yield Difference(key, None, answer)


def lines_of(answer: str | None) -> list[str]:
    """Returns the lines of an answer: JSON is indented, and a text in JSON is broken where it has line breaks."""
    if answer is None:
        return []
    lines: list[str] = []
    for line in answer.splitlines():
        if line[:1] in {"{", "["}:
            with contextlib.suppress(ValueError):
                line = json.dumps(json.loads(line), indent=1, ensure_ascii=False)  # noqa: PLW2901 - the same, readable
        lines += line.replace("\\n", "\n").splitlines() or [""]
    return lines


def shown(difference: Difference, most: int = LINES) -> list[str]:
    """Returns a unified diff of the two answers, cut to `most` lines."""
    lines = list(
        difflib.unified_diff(lines_of(difference.before), lines_of(difference.after), "before", "after", lineterm="")
    )
    if not lines:
        # They differ only in what is not shown, such as the order of keys or the end of a line.
        lines = ["- " + repr(difference.before), "+ " + repr(difference.after)]
    rest = len(lines) - most
    return lines if rest <= 0 else [*lines[:most], f"... and {rest} more lines"]


def rules_changed(difference: Difference) -> set[str]:
    """Returns the rules that are named in the lines that differ."""
    before, after = lines_of(difference.before), lines_of(difference.after)
    changed = (line[1:] for line in difflib.unified_diff(before, after, n=0, lineterm="") if line[:1] in "+-")
    return {rule for line in changed for rule in _RULE.findall(line)}


def summary(different: Iterable[Difference]) -> list[str]:
    """Returns all differences, one line a question by list, and then how many there are for each rule."""
    lines: list[str] = []
    counts: Counter[str] = Counter()
    lists: Counter[str] = Counter()
    for difference in different:
        of, question = difference.key
        sides = "only before" if difference.after is None else "only after" if difference.before is None else "differs"
        lines.append(f"{of}: {question}: {sides}")
        lists[of] += 1
        counts.update(rules_changed(difference))
    lines += [f"{count} of the list {of}" for of, count in lists.items()]
    lines += [f"{rule}: in {count} answers" for rule, count in sorted(counts.items())]
    return lines


def read_answers(lines: Iterable[str]) -> dict[Key, str]:
    """Returns the answers of a file."""
    answers: dict[Key, str] = {}
    for line in lines:
        of, question, answer = json.loads(line)
        key = (of, question)
        while key in answers:
            # Asked again, such as with the same body to another server.
            key = (of, f"{key[1]} again")
        answers[key] = answer
    return answers


# ---------------------------------------------------------------------------------------------------- the two sides


class Side(NamedTuple):
    """A checkout. `commit` is the revision that it is exactly; None if anything in it was changed."""

    folder: Path
    commit: str | None


def _git(*arguments: str, folder: Path = ROOT) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def _commit_of(folder: Path) -> str | None:
    """Returns the commit of a checkout without changes."""
    try:
        return None if _git("status", "--porcelain", folder=folder) else _git("rev-parse", "HEAD", folder=folder)
    except subprocess.CalledProcessError:
        return None


def _checked_out(revision: str, place: Path) -> Side:
    """Writes the files of a revision into a folder of its own, or finds them there."""
    place.mkdir(parents=True, exist_ok=True)
    try:
        commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError:
        sys.exit(f"same-answers: git knows no revision {revision}")
    folder = place / commit
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as made:
            archive = Path(made) / "files.tar"
            _git("archive", "--format=tar", "-o", str(archive), commit)
            with tarfile.open(archive) as files:
                files.extractall(Path(made) / "files", filter="data")
            _publish(Path(made) / "files", folder)
    os.utime(folder)
    _forget_old(place)
    return Side(folder, commit)


def _environment(side: Side, work: Path) -> dict[str, str]:
    """Returns the environment of a process with the code of one side, whatever the caller's terminal and settings."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    bytecode = hashlib.sha256(str(side.folder).encode()).hexdigest()[:16]
    return kept | {
        "PYTHONPATH": str(side.folder),
        "PYTHONHASHSEED": "0",
        "PYTHONPYCACHEPREFIX": str(_temporary() / "bytecode" / bytecode),
        "PYTHONUTF8": "1",
        "COLUMNS": "100",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "HOME": str(work),
        **{name: str(folder) for name, folder in _given().items()},
    }


def _temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"rollcall-same-answers-{os.getuid()}"


def _given() -> dict[str, Path]:
    """Returns the folders of real manifests that there are."""
    folders = {name: Path(os.environ.get(name) or ROOT.parent / "shared" / folder) for name, folder in _GIVEN.items()}
    return {name: folder.resolve() for name, folder in folders.items() if folder.is_dir()}


def _run(side: Side, work: Path, *arguments: str) -> None:
    """Runs `tools/answers.py` with the code of one side."""
    command = [sys.executable, "-P", str(TOOLS / "answers.py"), *arguments]
    ran = subprocess.run(command, cwd=work, env=_environment(side, work), capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"same-answers: {side.folder}: {' '.join(arguments)}\n{ran.stdout}{ran.stderr}")


# ---------------------------------------------------------------------------------------------------- what is kept


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rollcall" / "answers"


def _digest(*texts: str) -> str:
    """Returns one hash of this tool, the interpreter, the given folders and these texts."""
    whole = hashlib.sha256(repr((sys.version, texts)).encode())
    for path in (TOOLS / "answers.py", TOOLS / "stored_cluster.py", ROOT / "requirements-dev.lock"):
        whole.update(path.read_bytes())
    for name, folder in _given().items():
        for path in sorted(folder.rglob("*")):
            whole.update(repr((name, str(path.relative_to(folder)), path.stat().st_size)).encode())
    return whole.hexdigest()[:24]


def _publish(made: Path, folder: Path) -> None:
    """Moves a folder to its place as a whole. Another run may have made it meanwhile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}-{os.getpid()}")
    shutil.move(made, beside)
    try:
        beside.rename(folder)
    except OSError:
        shutil.rmtree(beside)


def _forget_old(folder: Path) -> None:
    """Keeps the newest entries of a folder, and those of the last hour, which another run may use."""
    fresh = time.time() - 3600
    entries = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True) if folder.is_dir() else []
    for path in entries[_KEPT:]:
        if path.stat().st_mtime > fresh:
            continue
        shutil.rmtree(path, ignore_errors=True)


def _questions_of(side: Side, work: Path) -> Path:
    """Returns the folder of the questions that a side makes, kept if it is a revision."""
    folder = _cache() / f"questions-{_digest(side.commit)}" if side.commit else work / "questions"
    if (folder / "questions.jsonl").is_file():
        os.utime(folder)
        return folder
    made = work / "made"
    _run(side, work, "questions", str(made))
    _publish(made, folder)
    return folder


def _answer(side: Side, part: str, questions: Path, out: Path, work: Path) -> None:
    """Writes one side's answers to one part of the questions."""
    place = work / f"{out.parent.name}-{part}"
    shutil.copytree(questions / "files", place)
    for variable, name in _GIVEN.items():
        if variable in _given():
            (place / name).symlink_to(_given()[variable])
    _run(side, place, part, str(questions), str(out))


def _answered(sides: Sequence[Side], questions: Path, work: Path) -> list[dict[Key, str]]:
    """Returns the answers of each side: kept ones, or those of two processes at a time."""
    asked = hashlib.sha256((questions / "questions.jsonl").read_bytes()).hexdigest()
    folders: list[Path] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        waiting = []
        for number, side in enumerate(sides):
            kept = _cache() / f"answers-{_digest(side.commit, asked)}" if side.commit else None
            if kept is not None and kept.is_dir():
                os.utime(kept)
                folders.append(kept)
                continue
            folder = work / f"answers-{number}"
            folder.mkdir()
            folders.append(folder)
            waiting += [pool.submit(_answer, side, part, questions, folder / f"{part}.jsonl", work) for part in PARTS]
        for one in waiting:
            one.result()
    answers = []
    for side, folder in zip(sides, folders, strict=True):
        answers.append(read_answers(line for part in PARTS for line in (folder / f"{part}.jsonl").open()))
        # What was changed meanwhile is not that revision.
        if side.commit and folder.parent == work and (side.folder != ROOT or _commit_of(ROOT) == side.commit):
            _publish(folder, _cache() / f"answers-{_digest(side.commit, asked)}")
    _forget_old(_cache())
    return answers


def main() -> int:
    """Compares, and says what differs."""
    parser = argparse.ArgumentParser(prog="scripts/same-answers", description=__doc__)
    parser.add_argument("revision", nargs="?", help="the git revision that this checkout is compared with")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout to compare with instead")
    parser.add_argument("--keep-going", action="store_true", help="list all differences, by question and by rule")
    parser.add_argument("--match", default="", metavar="TEXT", help="with --keep-going: show these in full")
    chosen = parser.parse_args()
    if (chosen.revision is None) is (chosen.against is None):
        parser.error("name a revision, or a checkout with --against")
    _temporary().mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_temporary(), ignore_cleanup_errors=True) as name:
        work = Path(name)
        if chosen.against is None:
            before = _checked_out(chosen.revision, _temporary() / "checkouts")
        else:
            before = Side(chosen.against.resolve(), _commit_of(chosen.against.resolve()))
        after = Side(ROOT, _commit_of(ROOT))
        questions = _questions_of(before, work)
        answers = _answered((before, after), questions, work)
    return _conclude(answers[0], answers[1], keep_going=chosen.keep_going, match=chosen.match)


def _conclude(before: Answers, after: Answers, *, keep_going: bool, match: str) -> int:
    different = list(differences(before, after))
    counts = Counter(of for of, _ in before)
    compared = ", ".join(f"{count} {of}" for of, count in counts.items())
    if not different:
        print(f"the same: {len(before)} answers compared ({compared})")
        return 0
    if keep_going:
        for line in summary(different):
            print(line)
        for difference in different if match else ():
            if match in ": ".join(difference.key):
                print(*("", ": ".join(difference.key), *shown(difference)), sep="\n")
    else:
        print(f"{': '.join(different[0].key)}")
        print(*shown(different[0]), sep="\n")
    print(f"{len(different)} of {len(before)} answers differ ({compared})")
    return 1


if __name__ == "__main__":
    sys.exit(main())
