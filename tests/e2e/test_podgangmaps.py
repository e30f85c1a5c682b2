"""The PodGangMaps of the fixture that plays Grove's operator, where no recording shows them."""

from __future__ import annotations

from tests.e2e.control_plane import Manifest
from tests.e2e.fixture_types import PlayNext
from tests.e2e.grove_next_operator import NextPlayed
from tests.e2e.podgangmaps import first_entries, gangs_of, short, with_clique, with_group
from tests.e2e.workloads import clique, pod_clique_set

HASH = "5c774bf886997b85bc47"


def template(router: int = 2, decode: int = 2, minimum: int = 1) -> Manifest:
    """A router beside a scaling group of a leader and its workers."""
    counts = {"router": router, "leader": 1, "worker": 3}
    group = {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": decode, "minAvailable": minimum}
    cliques = [{"name": name, "spec": {"replicas": count}} for name, count in counts.items()]
    return {"cliques": cliques, "podCliqueScalingGroups": [group]}


def entry(role: str, epoch: str, **fields: object) -> Manifest:
    return {"role": role, "epoch": epoch, "podCliqueSetGenerationHash": HASH, **fields}


def names(entries: list[Manifest]) -> list[str]:
    return [gang.name for gang in gangs_of("demo-0", entries)]


def test_a_set_without_scaling_groups_has_an_anchor_alone() -> None:
    alone = {"cliques": [{"name": "router", "spec": {"replicas": 2}}]}
    assert first_entries(alone, 100, HASH) == [entry("Anchor", "100", anchorIndex=0, podCliques={"router": 2})]


def test_whatever_has_zero_replicas_is_in_no_gang() -> None:
    entries = first_entries(template(router=0, decode=0), 100, HASH)
    assert entries == [entry("Anchor", "100", anchorIndex=0), entry("ScaleOut", "102", dependsOn=["100"])]
    assert names(entries) == []


def test_what_had_zero_replicas_comes_back_in_the_empty_anchor_with_another_epoch() -> None:
    entries = with_clique(first_entries(template(router=0, decode=0), 100, HASH), "router", 2, 200)
    assert entries == [
        entry("Anchor", "200", anchorIndex=0, podCliques={"router": 2}),
        entry("ScaleOut", "102", dependsOn=["200"]),
    ]


def test_what_had_zero_replicas_comes_back_in_an_additional_anchor_beside_a_living_one() -> None:
    entries = with_group(first_entries(template(decode=0), 100, HASH), "decode", 3, 2, 200)
    assert entries == [
        entry("Anchor", "100", anchorIndex=0, podCliques={"router": 2}),
        entry("ScaleOut", "102", dependsOn=["100"], pcsgReplicaIndices={"decode": [2]}),
        entry("Anchor", "200", anchorIndex=1, dependsOn=["100"], pcsgReplicaIndices={"decode": [0, 1]}),
    ]
    assert names(entries) == ["demo-0-100", "demo-0-102-decode-2", "demo-0-200"]


def test_scaling_out_adds_to_the_scale_out_entry() -> None:
    entries = with_group(first_entries(template(), 100, HASH), "decode", 4, 1, 200)
    assert names(entries) == ["demo-0-100", "demo-0-101-decode-1", "demo-0-102-decode-2", "demo-0-102-decode-3"]


def test_scaling_in_takes_scale_out_then_tail_then_anchor_and_the_highest_index_first() -> None:
    entries = with_group(first_entries(template(decode=4, minimum=2), 100, HASH), "decode", 6, 2, 200)
    left = []
    for replicas in (5, 4, 3, 2, 1):
        entries = with_group(entries, "decode", replicas, 2, 200)
        left.append({one["role"]: one.get("pcsgReplicaIndices", {}).get("decode") for one in entries})
    assert left == [
        {"Anchor": [0, 1], "Tail": [2, 3], "ScaleOut": [4]},
        {"Anchor": [0, 1], "Tail": [2, 3], "ScaleOut": []},
        {"Anchor": [0, 1], "Tail": [2], "ScaleOut": []},
        {"Anchor": [0, 1], "ScaleOut": []},
        {"Anchor": [0], "ScaleOut": []},
    ]


def test_a_name_over_63_characters_is_cut_and_ends_in_a_hash() -> None:
    assert short("a" * 63) == "a" * 63
    long = "inference-pipeline-of-the-year-0-1795344180043530356-decode-cluster-10"
    assert short(long) == "inference-pipeline-of-the-yea-h30ae7679636cf37bc63cb2b43f9586d6"
    assert len(short(long)) == 63


def two_of_each(namespace: str, name: str = "demo", router: int = 2, decode: int = 2) -> Manifest:
    """A router beside a scaling group of workers."""
    group = {"name": "decode", "cliqueNames": ["work"], "replicas": decode, "minAvailable": 1}
    return pod_clique_set(
        name,
        namespace,
        clique(
            "router",
            router,
        ),
        clique("work", 1),
        groups=[group],
    )


def members(made: NextPlayed) -> dict[str, list[str]]:
    """The hosts' names of the pods of each PodGang, as the pods' labels say; an epoch is shown as its order."""
    epochs = sorted({gang.entry["epoch"] for gang in made.gangs})
    found: dict[str, list[str]] = {name: [] for name in made.podgangs}
    for pod in made.pods():
        found[pod["metadata"]["labels"]["grove.io/podgang"]].append(pod["spec"]["hostname"])
    stored = [podgang["metadata"]["name"] for podgang in made.items("podgangs", made.selector)]
    assert sorted(found) == stored
    shown = {}
    for name, hosts in found.items():
        known = name
        for order, epoch in enumerate(epochs):
            known = known.replace(epoch, f"<{order}>")
        shown[known] = sorted(hosts)
    return shown


def test_what_is_scaled_to_zero_leaves_its_podgang_and_comes_back_in_another(
    namespace: str, play_next: PlayNext
) -> None:
    made = play_next(two_of_each(namespace, router=0)).create()
    assert members(made) == {
        "demo-0-<0>": ["demo-0-decode-0-work-0"],
        "demo-0-<1>-decode-1": ["demo-0-decode-1-work-0"],
    }
    made.scale("router", 1)
    assert members(made)["demo-0-<2>"] == ["demo-0-router-0"]
    made.scale("decode", 0)
    assert members(made) == {"demo-0-<0>": ["demo-0-router-0"]}
    made.scale("router", 0)
    assert members(made) == {}
    made.scale("router", 1).scale("decode", 2)
    assert members(made) == {
        "demo-0-<1>": ["demo-0-router-0"],
        "demo-0-<2>": ["demo-0-decode-0-work-0"],
        "demo-0-<0>-decode-1": ["demo-0-decode-1-work-0"],
    }


def test_each_replica_of_a_set_has_a_podgangmap_and_is_scaled_alone(namespace: str, play_next: PlayNext) -> None:
    workload = two_of_each(namespace, router=1, decode=1)
    workload["spec"]["replicas"] = 2
    made = play_next(workload).create().scale("decode", 2, replica=1)
    stored = made.items("podgangmaps", made.selector)
    assert [(one["metadata"]["name"], one["spec"]["podCliqueSetReplicaIndex"]) for one in stored] == [
        ("demo-0", 0),
        ("demo-1", 1),
    ]
    assert [one["spec"]["entries"] for one in stored] == [made.maps[0], made.maps[1]]
    assert sorted(members(made).values()) == [
        ["demo-0-decode-0-work-0", "demo-0-router-0"],
        ["demo-1-decode-0-work-0", "demo-1-router-0"],
        ["demo-1-decode-1-work-0"],
    ]


def test_a_rolling_update_recreates_the_podcliques_of_a_scaling_group_and_keeps_the_podgangs(
    namespace: str, play_next: PlayNext
) -> None:
    made = play_next(two_of_each(namespace)).create()
    before = {name: made.podgang(name)["metadata"]["uid"] for name in made.podgangs}
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in made.items("podcliques", made.selector)}
    hosts = members(made)
    made.roll("work", "registry.example.com/main:2.0")
    assert members(made) == hosts
    assert {name: made.podgang(name)["metadata"]["uid"] for name in made.podgangs} == before
    kept = [one["metadata"]["name"] for one in made.items("podcliques") if one["metadata"]["uid"] in uids.values()]
    assert kept == ["demo-0-router"]
    images = {pod["spec"]["hostname"]: pod["spec"]["containers"][0]["image"][-3:] for pod in made.pods()}
    assert images == {
        "demo-0-router-0": "1.0",
        "demo-0-router-1": "1.0",
        "demo-0-decode-0-work-0": "2.0",
        "demo-0-decode-1-work-0": "2.0",
    }
    for name in made.podgangs:
        named = [one["name"] for group in made.podgang(name)["spec"]["podgroups"] for one in group["podReferences"]]
        assert set(named) == pods_of(made, name)


def pods_of(made: NextPlayed, podgang: str) -> set[str]:
    return {pod["metadata"]["name"] for pod in made.pods() if pod["metadata"]["labels"]["grove.io/podgang"] == podgang}


def test_pods_name_a_podgang_whose_name_is_a_hash(namespace: str, play_next: PlayNext) -> None:
    name = "inference-pipeline-of-the-year-2026"
    made = play_next(two_of_each(namespace, name, router=1)).create()
    (tail,) = (gang for gang in made.gangs if gang.depends_on)
    assert tail.name == short(f"{name}-0-{tail.entry['epoch']}-decode-1") != f"{name}-0-{tail.entry['epoch']}-decode-1"
    (pod,) = (pod for pod in made.pods() if pod["metadata"]["labels"]["grove.io/podgang"] == tail.name)
    assert pod["spec"]["hostname"] == f"{name}-0-decode-1-work-0"
    assert made.podgang(tail.name)["metadata"]["labels"]["grove.io/epoch"] == tail.entry["epoch"]


def test_the_pods_of_a_podclique_are_divided_among_several_anchors(namespace: str, play_next: PlayNext) -> None:
    made = play_next(two_of_each(namespace, router=3, decode=1))
    made.given(
        entry("Anchor", "100", anchorIndex=0, podCliques={"router": 2}, pcsgReplicaIndices={"decode": [0]}),
        entry("Anchor", "200", anchorIndex=1, podCliques={"router": 1}, dependsOn=["100"]),
    ).create()
    assert members(made) == {
        "demo-0-<0>": ["demo-0-decode-0-work-0", "demo-0-router-0", "demo-0-router-1"],
        "demo-0-<1>": ["demo-0-router-2"],
    }
    told = {
        name: [(group["minReplicas"], len(group["podReferences"])) for group in made.podgang(name)["spec"]["podgroups"]]
        for name in made.podgangs
    }
    assert told == {"demo-0-100": [(2, 2), (1, 1)], "demo-0-200": [(1, 1)]}
    assert made.startable() == {"demo-0-100"}
