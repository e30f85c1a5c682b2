"""POST /capabilities with nodes among the manifests: whether the gangs fit, with a picture."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.unit.server.test_capabilities import ask
from webhook.config.defaults import default_settings
from webhook.offline.fact_files import load_facts
from webhook.server.state import ServerState

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: team-a, labels: {rollcall.dev/scheduler: koord-scheduler}}
spec:
  completionMode: Indexed
  parallelism: 3
  completions: 3
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: x, resources: {limits: {example.com/gpu: 8}}}]}
"""
NODES = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1}
  status: &has {allocatable: {cpu: 8, pods: 10, example.com/gpu: 8}, conditions: [{type: Ready, status: "True"}]}
- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: *has}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: old-0, namespace: team-b, labels: {rollcall.dev/gang: old}}
spec: {nodeName: n1, containers: [{name: main, image: x, resources: {limits: {example.com/gpu: 8}}}]}
status: {phase: Running}
"""


def test_nodes_among_the_manifests_say_that_a_gang_never_fits(client: httpx.Client) -> None:
    [found] = client.post("/capabilities?pictures=true", content=f"{JOB}---\n{NODES}").json()["workloads"]
    [fit] = found["fits"]
    assert (fit["verdict"], fit["scope"], fit["now"]) == ("never", "on these nodes", None)
    assert fit["says"] == (
        "gang train: never fits on these nodes: 3 pods of 8 example.com/gpu; 2 nodes of 8 take one each"
    )
    assert fit["remedy"] == "lower the minimum of train to 2 pods"
    assert fit["pictures"]["text"][0] == "gang train: never fits on these nodes, starts with 3 pods"
    assert fit["pictures"]["svg"].startswith("<svg ")


def test_pods_on_the_nodes_give_an_estimate_without_names_of_other_namespaces(client: httpx.Client) -> None:
    body = f"{JOB.replace('parallelism: 3', 'parallelism: 2').replace('ions: 3', 'ions: 2')}---\n{NODES}---\n{POD}"
    [found] = client.post("/capabilities", content=body).json()["workloads"]
    [fit] = found["fits"]
    assert (fit["verdict"], fit["now"]["answer"]) == ("fits", "short")
    assert fit["now"]["wouldHaveToGo"] == {"gangs": [], "ofOtherNamespaces": 1}
    assert "pictures" not in fit


def test_without_nodes_nothing_is_said_about_fit(client: httpx.Client) -> None:
    [found] = client.post("/capabilities", content=JOB).json()["workloads"]
    assert "fits" not in found
    assert all("fits" not in view for view in found["schedulers"])


def test_what_is_pasted_beats_the_facts_of_the_server() -> None:
    facts = load_facts([Path("manifests/facts")])
    body = "---\n".join(Path("manifests/fit", name).read_text() for name in ("large.yaml", "cluster.yaml"))
    state = ServerState(default_settings(), facts, None)
    (explained,) = ask(state, "POST", "/capabilities", body)
    assert [fit["verdict"] for fit in explained.json()["workloads"][0]["fits"]] == ["never"]
    assert any("manifests/facts/cluster.yaml" in one for one in explained.json()["assumed"])
    (checked,) = ask(state, "POST", "/check", body)
    assert [one["rule"] for one in checked.json()["findings"]] == ["fit/topology"]
