"""GET / and /docs: pages that need no other address and run no other script; / is off where POST /check is."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from tests.unit.cluster.world import World
from tests.unit.server.test_capabilities import ask
from tests.unit.server.test_manifests_in_a_cluster import told
from tests.unit.server.test_server_endpoints import FINE, REFUSED
from tests.unit.server.test_with_a_cluster import following
from webhook.errors import TooLarge
from webhook.server.check_endpoint import MAX_MANIFEST_BYTES
from webhook.server.state import ServerState

CHECKOUT = Path(__file__).parents[3]


def policy_of(response: httpx.Response) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in response.headers["content-security-policy"].split(";"))
    return {name: value for name, _, value in parts}


def hash_of(element: str, html: str) -> str:
    (text,) = re.findall(rf"<{element}[^>]*>(.*?)</{element}>", html, re.S)
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_the_page_runs_its_own_script_and_asks_its_own_server_and_nothing_else(client: httpx.Client) -> None:
    response = client.get("/")
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert policy_of(response) == {
        "default-src": "'none'",
        "style-src": hash_of("style", response.text),
        "script-src": hash_of("script", response.text),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"


def test_the_description_of_the_endpoints_runs_no_script(client: httpx.Client) -> None:
    response = client.get("/docs")
    assert "script-src" not in policy_of(response)
    assert "<script" not in response.text
    assert policy_of(response)["default-src"] == "'none'"
    assert policy_of(response)["style-src"] == hash_of("style", response.text)
    for path in client.get("/openapi.json").json()["paths"]:
        assert f" {path}</code></h2>" in response.text
    assert "One of server, built-in. By default server." in response.text


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_no_page_names_an_address_outside_the_server(client: httpx.Client, path: str) -> None:
    html = client.get(path).text
    assert set(re.findall(r"(?:https?:)?//[\w-]+\.[\w./-]+", html)) <= {"http://www.w3.org/2000/svg"}
    links = re.findall(r"""(?:src|href|action|srcset|poster)=["']([^"']*)""", html.split("<script")[0])
    assert set(links) <= {"docs", "openapi.json", "#findings"}
    assert not re.search(r"@import|url\((?!['\"]?data:)", html.split("<script")[0])


def test_the_page_has_at_most_half_a_megabyte_and_a_third_of_that_when_compressed(client: httpx.Client) -> None:
    plain = client.get("/", headers={"Accept-Encoding": "identity"})
    packed = client.get("/", headers={"Accept-Encoding": "gzip"})
    assert plain.text == packed.text
    assert int(plain.headers["content-length"]) < 500_000
    assert int(packed.headers["content-length"]) < 200_000


def test_a_browser_that_has_the_page_does_not_get_it_again(client: httpx.Client) -> None:
    tag = client.get("/").headers["etag"]
    again = client.get("/", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


def test_in_a_cluster_the_page_is_off_like_the_endpoints_and_names_the_setting() -> None:
    (answer,) = ask(following(World()), "GET", "/", b"")
    assert answer.status_code == 403
    assert answer.text.startswith("GET / ")
    assert 'serving.check: "on"' in answer.text
    assert ask(told(following(World()), on=True), "GET", "/", b"")[0].status_code == 200


def test_the_page_can_be_turned_off_without_a_cluster(state: ServerState) -> None:
    assert ask(told(state, on=False), "GET", "/", b"")[0].status_code == 403


@pytest.mark.parametrize("path", ["/check", "/capabilities"])
def test_above_the_limit_the_page_gets_a_413_that_names_the_limit(client: httpx.Client, path: str) -> None:
    response = client.post(path, content=b"#" * (MAX_MANIFEST_BYTES + 1))
    assert (response.status_code, response.json()) == (413, {"error": str(TooLarge(MAX_MANIFEST_BYTES))})


def test_the_built_in_configuration_can_be_chosen(client: httpx.Client) -> None:
    found = client.get("/capabilities?configuration=built-in").json()
    assert found["default"] == "default-scheduler"
    assert {"kai-scheduler", "koord-scheduler", "volcano"} < {one["scheduler"] for one in found["schedulers"]}
    rules = [
        [finding["rule"] for finding in client.post(f"/check?configuration={name}", content=REFUSED).json()["findings"]]
        for name in ("server", "built-in")
    ]
    assert rules == [["koordinator/mnnvl"], ["kube/mnnvl"]]
    explained = client.post("/capabilities?configuration=built-in", content=REFUSED).json()["workloads"]
    assert explained[0]["scheduler"] == "default-scheduler"


@pytest.mark.parametrize(("method", "path"), [("GET", "/capabilities"), ("POST", "/capabilities"), ("POST", "/check")])
def test_another_configuration_does_not_exist(client: httpx.Client, method: str, path: str) -> None:
    response = client.request(method, f"{path}?configuration=/etc/passwd", content=FINE if method == "POST" else None)
    assert (response.status_code, response.json()) == (
        400,
        {"error": "configuration: must be server or built-in"},
    )


def test_an_explanation_has_pictures_only_if_they_are_asked_for(client: httpx.Client) -> None:
    (without,) = client.post("/capabilities", content=FINE).json()["workloads"]
    assert "pictures" not in without
    (found,) = client.post("/capabilities?pictures=true", content=FINE).json()["workloads"]
    assert found["pictures"]["text"] == [
        "PodCliqueSet default/demo: 2 pods in all",
        "└── PodGang demo-0-<epoch>: 2 pods",
        "    └── worker: 2 pods",
    ]
    assert found["pictures"]["mermaid"].startswith("flowchart TD\n")
    assert ElementTree.fromstring(found["pictures"]["svg"]).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - ours


GROUPS = """\
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: worker, namespace: team-a}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: w0, namespace: team-a}
spec: {schedulingGroup: {podGroupName: worker}}
"""


def test_trees_of_groups_are_explained_and_drawn_too(client: httpx.Client) -> None:
    answer = client.post("/capabilities?pictures=true", content=GROUPS).json()
    (tree,) = answer["trees"]
    assert (tree["answer"], tree["line"]) == ("cannot", 1)
    assert tree["why"][0]["message"] == "PodGroup worker needs 2 pods to start, and one is there"
    assert tree["pictures"]["text"] == ["PodGroup team-a/worker: starts with 2 pods, has 1"]


def test_a_group_that_cannot_be_read_leaves_the_trees_unknown_and_workloads_explained(client: httpx.Client) -> None:
    broken = GROUPS.replace("{schedulingPolicy: {gang: {minCount: 2}}}", "{schedulingPolicy: 3}")
    answer = client.post("/capabilities", content=f"{broken}---\n{FINE}").json()
    assert (answer["trees"], len(answer["workloads"])) == ([], 1)
    assert answer["treesNotRead"].startswith("body:1:1: PodGroup team-a/worker: ")


def test_the_libraries_are_those_of_the_lock_file_with_their_licences() -> None:
    lock: Any = json.loads((CHECKOUT / "page" / "package-lock.json").read_text())
    libraries = (CHECKOUT / "webhook" / "server" / "page" / "libraries.js").read_text()
    notices = libraries.partition("*/")[0]
    named = set(re.findall(r"^(\S+) (\d\S*) \((MIT|ISC)\) Copyright ", notices, re.M))
    locked = {
        (path.removeprefix("node_modules/"), one["version"], one["license"])
        for path, one in lock["packages"].items()
        # lang-yaml names the last one for what the page does not use.
        if path and not one.get("dev") and path != "node_modules/@codemirror/autocomplete"
    }
    assert named == locked
    assert "Permission is hereby granted, free of charge" in notices
