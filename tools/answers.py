"""The questions of `scripts/same-answers`, and the answers of one checkout to them.

    python -P tools/answers.py questions FOLDER          writes the questions that the checkout on PYTHONPATH makes
    python -P tools/answers.py PART QUESTIONS ANSWERS    writes that checkout's answers to one part of them

The two checkouts that are compared may differ in every module, so this program knows little of either: the command
line, the paths of the server, and the names in `NAMES`. All questions come from one checkout, so both sides answer the
same ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import importlib.util
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import typer

# What is used of a checkout: the first of the names that exists there. Put the new name in front when one moves.
NAMES: dict[str, tuple[str, ...]] = {
    "main": ("webhook.cli:main",),
    "clock": ("webhook.cluster.clock:MACHINE_CLOCK", "webhook.clock:MACHINE_CLOCK"),
    # The pages of docs/reference by their path.
    "reference_pages": ("tools.reference_pages:reference_pages", "webhook.cli.reference_pages:reference_pages"),
    # Servers by name, each with its application; inputs of the fuzzer; and how one gets the other.
    "worlds": ("tests.fuzz.worlds:worlds",),
    "seeds": ("tests.fuzz.seeds:seeds",),
    "read_corpus": ("tests.fuzz.inputs:read_corpus",),
    "Input": ("tests.fuzz.inputs:Input",),
    "Mutator": ("tests.fuzz.mutation:Mutator",),
    "called": ("tests.fuzz.fuzzer:called",),
    "running": ("tests.fuzz.fuzzer:running",),
    "World": ("tests.fuzz.worlds:World",),
    # Each rule with each of its two examples, and the scheduler of the rules that have one.
    "every_example": ("tests.fuzz.worlds:every_example",),
    "schedulers": ("tests.unit.validators.test_rule_examples:SCHEDULERS",),
    "review": ("tests.fuzz.seeds:review",),
    "settings_of": ("tests.unit.worlds:settings_of", "tests.worlds:settings_of"),
    "ServerState": ("webhook.server.state:ServerState",),
    "create_app": ("webhook.server.routes:create_app", "webhook.server.app:create_app"),
    "MISTAKES": ("tests.unit.mistakes.test_mistakes:MISTAKES",),
    "CORRECT": ("tests.unit.mistakes.test_mistakes:CORRECT",),
}

# The parts that are answered in processes of their own, and the lists of questions in each.
PARTS: dict[str, tuple[str, ...]] = {
    "commands": ("command", "check", "explain", "fit", "render", "mistake", "case"),
    "reviews": ("reference", "rule example", "review", "fuzz", "cluster"),
}
# How many bodies the fuzzer draws, always the same.
BODIES = 3000
# The time of the answers: exceptions end and certificates expire.
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)

_SCHEDULERS = (
    "koord-scheduler",
    "default-scheduler",
    "volcano",
    "kai-scheduler",
    "scheduler-plugins-scheduler",
    "lpx-scheduler",
)
_HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
_COMMANDS = (
    "",
    "check",
    "explain",
    "fit",
    "render",
    "rules",
    "facts",
    "doctor",
    "audit",
    "upgrade-plan",
    "serve",
    "reconcile",
    "metrics",
    "gangs",
    "gangs remedy",
    "certs",
    "certs dev",
    "certs status",
    "certs rotate",
    "certs verify",
    "config",
    "config init",
    "config check",
    "config show",
    "config schema",
    "manifests",
    "manifests webhooks",
    "manifests rbac",
    "manifests net",
    "manifests all",
    "manifests crds",
    "manifests write",
    "schema",
    "schema report",
    "schema fit",
    "shapes",
    "shapes list",
    "shapes show",
    "shapes init",
    "shapes test",
)
# Commands that need no manifests. `rollcall.yaml` and `every.json` are configurations, and what is written into `out`
# is part of the answer.
_PLAIN = (
    "--version",
    "rules",
    "rules --config no-file",
    "rules --config rollcall.yaml",
    "rules --config every.json",
    "rules -o json",
    "rules -o markdown",
    "rules koordinator/nothing",
    "metrics",
    "metrics -o json",
    "metrics -o markdown",
    "doctor -o markdown",
    "schema report",
    "schema fit",
    "config schema",
    "config init out/rollcall.yaml",
    "config show",
    "config show --config every.json",
    "config check rollcall.yaml",
    "config check every.json",
    "config check manifests/samples/refused.yaml",
    "shapes list",
    "shapes list --config every.json",
    "manifests crds --config every.json",
    *(
        f"manifests {what} --config {config}"
        for config in ("rollcall.yaml", "every.json")
        for what in ("webhooks", "rbac", "net", "all", "write out")
    ),
    "explain manifests/samples/refused.yaml",
    "explain -o mermaid manifests/samples",
    "explain -o svg manifests/samples",
    "explain -o mermaid manifests/trees",
    "explain -o svg manifests/opted-in",
    "fit --facts manifests/fit/cluster.yaml manifests/fit/large.yaml",
    "fit --facts manifests/fit manifests/fit",
    "fit --facts manifests/fit -o json manifests/fit/small.yaml manifests/fit/large.yaml",
    "fit --facts manifests/fit -o svg manifests/fit/large.yaml",
    *(f"check -o {form} manifests samples" for form in ("sarif", "junit", "github", "gitlab", "json", "text")),
    "check --fix --diff manifests/samples/refused.yaml",
    "check --strict manifests/samples manifests/opted-in manifests/trees",
    "check nowhere.yaml",
    "check --scheduler nobody manifests",
)


class Unresolved(Exception):
    """None of the names of a table entry exists in this checkout."""


@functools.cache
def named(what: str) -> Any:
    """Returns what the first name that exists stands for."""
    for name in NAMES[what]:
        module, _, attribute = name.partition(":")
        try:
            if importlib.util.find_spec(module) is None:
                continue
        except ModuleNotFoundError:
            continue
        found = getattr(importlib.import_module(module), attribute, None)
        if found is not None:
            return found
    raise Unresolved(f"no {what} in this checkout: add its name to NAMES in tools/answers.py (now {NAMES[what]})")


# ---------------------------------------------------------------------------------------------------- questions


def write_questions(folder: Path) -> None:
    """Writes `questions.jsonl`, and `files`, the folder that commands are called in."""
    files = folder / "files"
    shutil.rmtree(folder, ignore_errors=True)
    files.mkdir(parents=True)
    root = Path(importlib.import_module("webhook").__file__ or "").parents[1]
    shutil.copytree(root / "manifests", files / "manifests")
    shutil.copyfile(root / "manifests" / "configuration.yaml", files / "rollcall.yaml")
    profiles = [{"name": name, "config": config} for name, config in _profiles().items()]
    scheduler = {"defaultProfileName": "koord-scheduler", "profiles": profiles}
    (files / "every.json").write_text(json.dumps({**_HEAD, "scheduler": scheduler}))
    with (folder / "questions.jsonl").open("w") as out:
        for question in (*_command_questions(files), *_review_questions()):
            out.write(json.dumps(question) + "\n")


def _profiles() -> dict[str, dict[str, Any]]:
    return {
        "koord-scheduler": {"topologyKeyMappings": {"example.com/rack": "RackLayer"}},
        "default-scheduler": {"gangScheduling": True, "apiGeneration": "v1beta1"},
        "volcano": {"topology": "hypernode"},
        "kai-scheduler": {"defaultQueue": "default-queue"},
        "scheduler-plugins-scheduler": {},
        "lpx-scheduler": {},
    }


Question = dict[str, Any]


def _command(of: str, *arguments: str, stdin: str = "") -> Question:
    return {"list": of, "name": " ".join(arguments), "arguments": arguments, "stdin": stdin}


def _command_questions(files: Path) -> Iterator[Question]:
    for command in _COMMANDS:
        yield _command("command", *command.split(), "--help")
    for line in _PLAIN:
        yield _command("command", *line.split())
    for number, path in enumerate(_manifests()):
        yield from _about_manifests(number, path, "--facts", "manifests/facts")
    yield from _mistakes(files)
    cases = os.environ.get("ROLLCALL_CASES")
    for case in sorted(Path(cases).iterdir()) if cases else ():
        if case.is_dir():
            for command in ("check", "explain"):
                yield _command("case", command, "-o", "json", f"cases/{case.name}")
            yield _command("case", "check", f"cases/{case.name}")


def _manifests() -> list[str]:
    """The manifests that commands are asked about, one question a file."""
    found = ["manifests/samples", "manifests/opted-in/training.yaml", "manifests/trees/training.yaml"]
    samples = os.environ.get("ROLLCALL_SAMPLES")
    if samples:
        paths = sorted(path for path in Path(samples).rglob("*") if path.suffix in {".yaml", ".yml", ".json"})
        found += [f"samples/{path.relative_to(samples)}" for path in paths]
    return found


def _about_manifests(number: int, path: str, *facts: str) -> Iterator[Question]:
    yield _command("check", "check", "-o", "json", path)
    yield _command("check", "check", *facts, path)
    yield _command("explain", "explain", "-o", "json", path)
    yield _command("explain", "explain", *facts, path)
    yield _command("fit", "fit", "-o", "json", *facts, path)
    for scheduler in _SCHEDULERS:
        yield _command("render", "render", "--scheduler", scheduler, path)
    # Each file with two of the schedulers, in turns.
    for turn in (0, 3):
        scheduler = _SCHEDULERS[(number + turn) % len(_SCHEDULERS)]
        yield _command("check", "check", "-o", "json", *facts, "--scheduler", scheduler, path)


def _mistakes(files: Path) -> Iterator[Question]:
    for table in ("MISTAKES", "CORRECT"):
        for number, (name, mistake) in enumerate(named(table).items()):
            folder = files / "mistakes" / f"{table.lower()}-{number}"
            folder.mkdir(parents=True)
            place = str(folder.relative_to(files))
            (folder / "manifests.yaml").write_text(getattr(mistake, "manifests", mistake))
            options, facts = _options(folder, place, getattr(mistake, "case", None))
            for command in ("check", "explain"):
                yield _command("mistake", command, "-o", "json", *options, *facts, f"{place}/manifests.yaml")
            for command in ("check", "render"):
                yield _command("mistake", command, *options, *facts, f"{place}/manifests.yaml")
            facts = facts or ["--facts", "manifests/fit/cluster.yaml"]
            yield {
                **_command("mistake", "fit", "-o", "json", *options, *facts, f"{place}/manifests.yaml"),
                "about": name,
            }


def _options(folder: Path, place: str, case: Any) -> tuple[list[str], list[str]]:
    """The options of a mistake, and those that name facts."""
    options: list[str] = []
    facts: list[str] = []
    if case is not None and case.profiles is not None:
        (folder / "rollcall.json").write_text(json.dumps({**_HEAD, "scheduler": case.profiles}))
        options += ["--config", f"{place}/rollcall.json"]
    if case is not None and case.option is not None:
        options += ["--scheduler", case.option]
    if case is not None and case.namespace is not None:
        metadata = {"name": "default", "labels": {"rollcall.dev/scheduler": case.namespace}}
        (folder / "namespace.json").write_text(
            json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        )
        facts += ["--facts", f"{place}/namespace.json"]
    return options, facts


def _review_questions() -> Iterator[Question]:
    yield {"list": "reference", "name": "pages"}
    schedulers = named("schedulers")
    for number, (rule, example) in enumerate(named("every_example")()):
        which = "fails" if number % 2 else "passes"
        version = {} if example.version is None else {"schedulerVersion": example.version}
        yield {
            "list": "rule example",
            "name": f"{rule.id} {which}",
            "review": json.loads(named("review")(example.object, example.old)),
            "user": example.user,
            "scheduler": schedulers.get(rule.id, example.scheduler or "koord-scheduler"),
            "config": dict(example.config),
            "kueue": dict(example.kueue),
            "profile": version,
        }
    seeds = [*named("seeds")(), *named("read_corpus")()]
    mutator, random = named("Mutator")(Random(0)), Random(0)
    for seed in seeds:
        mutator.show(seed)
    for number, seed in enumerate(seeds):
        yield {"list": "review", "name": f"{number}: {seed.world} {seed.path}", "line": seed.line()}
    for number in range(BODIES):
        drawn = mutator.mutate(random.choice(seeds))
        yield {"list": "fuzz", "name": f"{number}: {drawn.world} {drawn.path}", "line": drawn.line()}
    for scheduler in _SCHEDULERS:
        yield {"list": "cluster", "name": f"reconcile with {scheduler}", "scheduler": scheduler}


# ---------------------------------------------------------------------------------------------------- answers

# A part of the name of a question, behind its list and its own name, and the answer.
Answer = tuple[str, str]


def answers_to(question: Question) -> Iterator[Answer]:
    """Yields the answers to a question; most have one."""
    match question["list"]:
        case "reference":
            yield from named("reference_pages")().items()
        case "rule example":
            yield from _example(question)
        case "review" | "fuzz":
            yield "", _loop().run(_reviewed(named("Input").of_line(question["line"])))
        case "cluster":
            yield from _in_cluster(question)
        case _:
            yield from _called(question)


def _called(question: Question, environment: dict[str, str] | None = None) -> Iterator[Answer]:
    """What a command leaves: its exit code, what it prints, and the files that it writes."""
    out = Path("out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    code, printed, told = call(question["arguments"], question["stdin"])
    yield "", f"exit code {code}\n{printed}\n--- standard error\n{told}"
    for path in sorted(out.rglob("*")):
        if path.is_file():
            yield str(path), path.read_text(errors="backslashreplace")


def call(arguments: list[str], stdin: str = "") -> tuple[Any, str, str]:
    """Calls the command line in this process."""
    kept = sys.stdin, sys.stdout, sys.stderr
    streams = [io.TextIOWrapper(io.BytesIO(text), "utf-8") for text in (stdin.encode(), b"", b"")]
    sys.stdin, sys.stdout, sys.stderr = streams
    code: Any = None
    try:
        named("main")(list(arguments))
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept
        for stream in streams[1:]:
            stream.flush()
    printed, told = (stream.buffer.getvalue().decode(errors="backslashreplace") for stream in streams[1:])
    return code, printed, told


@contextlib.contextmanager
def fixed_time() -> Iterator[None]:
    """Stops the clocks of the checkout: no deadline is reached, and nothing depends on how busy the machine is."""
    clock = named("clock")
    fixed: dict[str, Callable[[], Any]] = {"now": lambda: NOW, "monotonic": lambda: 1e6, "processor": lambda: 1.0}
    vars(clock).update(fixed)
    try:
        yield
    finally:
        for name in fixed:
            del vars(clock)[name]


# One event loop for all: to make one takes longer than most answers.
_loop = functools.cache(asyncio.Runner)
_servers: dict[str, Any] = {}


async def _reviewed(given: Any) -> str:
    if not _servers:
        _servers.update(named("worlds")())
    return _shown(await named("called")(_servers[given.world], given))


def _shown(answer: Any) -> str:
    status, kind, body = answer
    return f"{status} {kind}\n{body.decode(errors='backslashreplace')}"


_examples: dict[str, Any] = {}


def _example(question: Question) -> Iterator[Answer]:
    """The answers about the example of a rule, with the facts that this checkout gives it."""
    import jsonpatch  # noqa: PLC0415 - only this part needs it
    import yaml  # noqa: PLC0415

    if not _examples:
        for number, (rule, example) in enumerate(named("every_example")()):
            _examples[f"{rule.id} {'fails' if number % 2 else 'passes'}"] = example
    if question["name"] not in _examples:
        yield "", "this checkout has no such example"
        return
    options = [question[option] for option in ("scheduler", "config", "kueue", "profile")]
    world = _server(json.dumps(options))
    world.state.facts = _examples[question["name"]].facts

    def ask(path: str, body: bytes) -> tuple[str, bytes]:
        answer = _loop().run(named("called")(world, named("Input")("example", path, body)))
        return _shown(answer), answer[2]

    review = question["review"]
    review["request"]["userInfo"] = {"username": question["user"], "groups": ["system:authenticated"]}
    body = json.dumps(review).encode()
    mutated, raw = ask("/mutate", body)
    yield "/mutate", mutated
    yield "/validate", ask("/validate", body)[0]
    patched = _patched(review, raw, jsonpatch)
    if patched is not None:
        yield "/validate, mutated", ask("/validate", patched)[0]
    yield "/check", ask("/check", yaml.safe_dump(review["request"]["object"]).encode())[0]


@functools.cache
def _server(options: str) -> Any:
    scheduler, config, kueue, profile = json.loads(options)
    state = named("ServerState")(named("settings_of")(scheduler, config, kueue=kueue, **profile), None, None)
    return named("World")("example", state, named("create_app")(state))


def _patched(review: dict[str, Any], answer: bytes, jsonpatch: Any) -> bytes | None:
    """The review of the object as it is after mutation; None if nothing changes."""
    import base64  # noqa: PLC0415

    try:
        patch = base64.b64decode(json.loads(answer)["response"]["patch"])
    except (ValueError, KeyError, TypeError):
        return None
    request = review["request"]
    changed = jsonpatch.apply_patch(request["object"], json.loads(patch))
    return json.dumps({**review, "request": {**request, "object": changed}}).encode()


def _in_cluster(question: Question) -> Iterator[Answer]:
    """What the reconciler does in one pass over a small cluster: its requests, counted, and what it writes."""
    path = Path(__file__).with_name("stored_cluster.py")
    spec = importlib.util.spec_from_file_location("stored_cluster", path)
    if spec is None or spec.loader is None:
        raise Unresolved(f"no {path}")
    stored = importlib.util.module_from_spec(spec)
    sys.modules["stored_cluster"] = stored
    spec.loader.exec_module(stored)
    scheduler = question["scheduler"]
    profile = {"name": scheduler, "config": _profiles()[scheduler]}
    config = {**_HEAD, "scheduler": {"defaultProfileName": scheduler, "profiles": [profile]}}
    Path("cluster.json").write_text(json.dumps(config))
    with stored.serving(scheduler) as (address, requests):
        Path("kubeconfig").write_text(json.dumps(stored.kubeconfig(address)))
        where = ["--config", "cluster.json", "--kubeconfig", "kubeconfig"]
        code, printed, _ = call(["reconcile", "--once", *where])
        yield "reconcile --once", f"exit code {code}\n{printed}"
        # Pods are read again as long as it runs.
        yield "requests of reconcile --once", stored.counted(requests, "GET /api/v1/pods")
        yield "writes of reconcile --once", stored.written(requests)
        for command in ("gangs -A", "gangs -A -o json", "audit -o json", "explain pcs/demo -n team-a"):
            requests.clear()
            code, printed, told = call([*command.split(), *where])
            yield command, f"exit code {code}\n{printed}\n--- standard error\n{told}"
            yield f"requests of {command}", stored.counted(requests)


def write_answers(part: str, questions: Path, out: Path) -> None:
    """Writes the answers to the questions of one part, one JSON line each: list, question, answer."""
    # A process builds its commands once: that takes longer than most of them.
    typer.main.get_command = functools.cache(typer.main.get_command)
    chosen, here = PARTS[part], str(Path(os.environ["PYTHONPATH"]).resolve())
    with out.open("w") as lines, named("running")(None) if part == "reviews" else contextlib.nullcontext():
        for line in (questions / "questions.jsonl").open():
            question = json.loads(line)
            if question["list"] not in chosen:
                continue
            with fixed_time() if question["list"] != "cluster" else contextlib.nullcontext():
                for more, answer in _safely(question):
                    name = ": ".join(filter(None, (question["name"], more)))
                    lines.write(json.dumps([question["list"], name, answer.replace(here, "CHECKOUT")]) + "\n")


def _safely(question: Question) -> Iterator[Answer]:
    """The answers, or the exception that ended them: it is an answer, too, and no reason to stop."""
    try:
        yield from answers_to(question)
    except Unresolved:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a side raises is compared
        yield "raised", f"{type(error).__name__}: {error}"


def only_this_checkout() -> None:
    """Takes other checkouts off the path, such as that of an editable installation: their modules would stand in for
    those that this checkout does not have.
    """
    here = Path(os.environ["PYTHONPATH"]).resolve()
    sys.path[:] = [
        entry for entry in sys.path if Path(entry).resolve() == here or not (Path(entry) / "webhook" / "cli").is_dir()
    ]
    place = Path(importlib.import_module("webhook").__file__ or "").resolve()
    if place.parents[1] != here:
        sys.exit(f"same-answers: webhook is imported from {place.parents[1]}, not from {here}")


def main() -> None:
    """Writes questions or answers."""
    only_this_checkout()
    try:
        if sys.argv[1] == "questions":
            write_questions(Path(sys.argv[2]))
        else:
            write_answers(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    except Unresolved as error:
        sys.exit(f"same-answers: {error}")


if __name__ == "__main__":
    main()
