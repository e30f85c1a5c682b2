"""Faulty Koordinator gang objects, rule by rule: the API server accepts each, because nothing
validates them. Everything stands in the namespace `default`; the tests move it to their own.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.gang_writer import posted
from webhook.backends.koordinator.gang_groups import annotated_pod, gather, pod, pod_group

LABEL, ANNOTATION = "pod-group.scheduling.sigs.k8s.io", "gang.scheduling.koordinator.sh/name"
MINIMUM = "gang.scheduling.koordinator.sh/min-available"

NETWORK: Manifest = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "SpineLayer", "labelKey": ["example.com/spine"]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "SpineLayer"},
        ]
    },
}
SPINE = {"layer": "SpineLayer", "strategy": "MustGather"}


class Wrong(NamedTuple):
    """An object that the API server takes; `rule` refuses it, or warns of it. `needs` must be there before, and `old`
    is what it was before an update.
    """

    rule: str
    object: Manifest
    needs: tuple[Manifest, ...] = ()
    old: Manifest | None = None
    refused: bool = True


def setting(name: str, value: str, **spec: object) -> Manifest:
    """A PodGroup with one setting."""
    return pod_group("leader", settings={name: value}, **spec)


def topology(**changed: object) -> Manifest:
    """A PodGroup with a network topology of one entry."""
    return pod_group("leader", settings=gather({**SPINE, **changed}))


def alias() -> Manifest:
    """A PodGroup with two policies."""
    found = setting("match-policy", "once-satisfied")
    found["metadata"]["annotations"]["pod-group.scheduling.sigs.k8s.io/match-policy"] = "waiting-and-running"
    return found


BOTH = pod_group("worker", "leader", "worker")

WRONG: dict[str, Wrong] = {
    "a list that is no JSON": Wrong("gang-groups-unread", setting("groups", "default/leader,default/worker")),
    "a list that is an object": Wrong("gang-groups-unread", setting("groups", '{"groups":["default/leader"]}')),
    "a list on a pod that is no JSON": Wrong("gang-groups-unread", annotated_pod(groups="worker")),
    "a member without a namespace": Wrong("gang-groups-member", setting("groups", '["default/leader","worker"]')),
    "a member that is a number": Wrong("gang-groups-member", setting("groups", '["default/leader",1]')),
    "a member that is null": Wrong("gang-groups-member", setting("groups", '["default/leader",null]')),
    "a list without the gang itself": Wrong("gang-groups-itself", pod_group("leader", "worker")),
    "a member that is there twice": Wrong("gang-groups-twice", pod_group("leader", "leader", "leader"), refused=False),
    "a member that lists only itself": Wrong(
        "gang-groups-differ", pod_group("leader", "leader", "worker"), (pod_group("worker", "worker"),)
    ),
    "a member with an empty list": Wrong(
        "gang-groups-differ", pod_group("leader", "leader", "worker"), (pod_group("worker"),)
    ),
    "a PodGroup that another one lists": Wrong("gang-groups-differ", pod_group("leader"), (BOTH,)),
    "a list that changes": Wrong(
        "gang-groups-edited", pod_group("leader", "leader", "worker"), old=pod_group("leader"), refused=False
    ),
    "a member that is not there": Wrong("gang-member-missing", pod_group("leader", "leader", "worker"), refused=False),
    "a mode in lower case": Wrong("gang-mode", setting("mode", "strict")),
    "a mode on a pod that there is not": Wrong("gang-mode", annotated_pod(mode="Loose")),
    "a match policy that there is not": Wrong("gang-match-policy", setting("match-policy", "WaitingAndRunning")),
    "two match policies": Wrong("gang-match-policy-alias", alias()),
    "a policy that forbids replacements": Wrong(
        "gang-only-waiting", setting("match-policy", "only-waiting"), refused=False
    ),
    "a minimum of 0": Wrong("gang-minimum", setting("mode", "Strict", minMember=0)),
    "a minimum below 0": Wrong("gang-minimum", setting("mode", "Strict", minMember=-1)),
    "a minimum of 0 on a pod": Wrong("gang-minimum", pod(annotations={ANNOTATION: "worker", MINIMUM: "0"})),
    "a total that is no number": Wrong("gang-total-number", setting("total-number", "four")),
    "a total below the minimum": Wrong("gang-total-number", setting("total-number", "1")),
    "a waiting time without a unit": Wrong("gang-waiting-time", annotated_pod(waiting_time="30")),
    "a waiting time in days": Wrong("gang-waiting-time", annotated_pod(waiting_time="1d")),
    "a wait of an hour": Wrong("gang-timeout", pod_group("leader", scheduleTimeoutSeconds=3600), refused=False),
    "a wait of no time": Wrong("gang-timeout", pod_group("leader", scheduleTimeoutSeconds=0), refused=False),
    "a topology that is no JSON": Wrong(
        "gang-topology-unread", setting("network-topology-spec", "SpineLayer"), (NETWORK,)
    ),
    "a topology that is a list": Wrong(
        "gang-topology-unread", setting("network-topology-spec", json.dumps([SPINE])), (NETWORK,)
    ),
    "a multiple that is a string": Wrong("gang-topology-unread", topology(podCountMultiple="4"), (NETWORK,)),
    "a multiple with a point": Wrong("gang-topology-unread", topology(podCountMultiple=4.0), (NETWORK,)),
    "a layer that is a number": Wrong("gang-topology-unread", topology(layer=1), (NETWORK,)),
    "a strategy that there is not": Wrong("gang-topology-strategy", topology(strategy="mustGather"), (NETWORK,)),
    "a layer in another case": Wrong("gang-topology-layer", topology(layer="spineLayer"), (NETWORK,)),
    "a layer of the proposal": Wrong("gang-topology-layer", topology(layer="hostLayer"), (NETWORK,)),
    "a topology without a ClusterNetworkTopology": Wrong("gang-topology-missing", topology()),
    "a member with another topology": Wrong(
        "gang-topology-differs",
        pod_group("leader", "leader", "worker", settings=gather(SPINE)),
        (BOTH, NETWORK),
    ),
    "a label and an annotation that disagree": Wrong(
        "gang-names-disagree", pod(labels={LABEL: "worker"}, annotations={ANNOTATION: "leader"}), (pod_group("worker"),)
    ),
    "a label and the deprecated one that disagree": Wrong(
        "gang-names-disagree", pod(labels={LABEL: "worker", f"{LABEL}/name": "leader"}), (pod_group("worker"),)
    ),
    "no minimum": Wrong("gang-min-available", pod(annotations={ANNOTATION: "worker"})),
    "a minimum with a point": Wrong("gang-min-available", pod(annotations={ANNOTATION: "worker", MINIMUM: "2.0"})),
    "a PodGroup that is not there": Wrong("pod-group-missing", pod(labels={LABEL: "worker"}), refused=False),
    "a setting beside the label": Wrong(
        "gang-settings-unread",
        pod(labels={LABEL: "worker"}, annotations={MINIMUM: "2"}),
        (pod_group("worker"),),
        refused=False,
    ),
    "a setting of no gang": Wrong("gang-settings-unread", pod(annotations={MINIMUM: "2"}), refused=False),
}


def moved(manifest: Manifest, namespace: str) -> Manifest:
    """An object in another namespace, with what it lists."""
    if manifest["kind"] == NETWORK["kind"]:
        return manifest
    found: Manifest = json.loads(json.dumps(manifest).replace("default/", f"{namespace}/"))
    found["metadata"]["namespace"] = namespace
    return found


def created(plane: ControlPlane, manifest: Manifest, *, dry: bool = False) -> httpx.Response:
    """The answer to the creation of such an object, or of a pod."""
    if manifest["kind"] != "Pod":
        return posted(plane, manifest, dry=dry)
    path = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods"
    return plane.http.post(path, params={"dryRun": "All"} if dry else {}, json=manifest)
