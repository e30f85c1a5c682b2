"""`rollcall gangs give-back`: the way back to a release up to 0.3.0, whose gang objects a PodGang owned."""

from __future__ import annotations

import pytest

from tests.e2e.bound_pods import is_bound
from tests.e2e.command import run_here
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, PlayNext, Reconcilers, Rollcall, Scheduler
from tests.e2e.grove_operator import Played
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.workloads import two_cliques

KINDS = {"workloads": "v1beta1", "compositepodgroups": "v1alpha3", "podgroups": "v1beta1"}
GIVEN_BACK = "rollcall.dev/given-back"
# What releases up to 0.3.0 do not send.
NEW = {"annotations": (GIVEN_BACK, "rollcall.dev/members", "rollcall.dev/applied"), "labels": ("rollcall.dev/gang",)}


class Gang:
    """A living gang on kube-scheduler, and its objects."""

    def __init__(self, plane: ControlPlane, made: Played, reconciler: ReconcilerProcess) -> None:
        self.plane, self.made, self.reconciler = plane, made, reconciler

    def give_back(self) -> tuple[int, str]:
        """Run the command; its exit code and what it prints."""
        kubeconfig = self.plane.write_kubeconfig("admin-token")
        done = run_here("gangs", "give-back", f"--config={self.reconciler.config}", f"--kubeconfig={kubeconfig}")
        assert done.returncode in {0, 1}, done.stderr
        return done.returncode, done.stdout

    def objects(self) -> dict[str, Manifest]:
        """The gang's objects by their paths."""
        paths = (
            f"/apis/scheduling.k8s.io/{version}/namespaces/{self.made.namespace}/{plural}"
            for plural, version in KINDS.items()
        )
        return {f"{path}/{one['metadata']['name']}": one for path in paths for one in self.plane.items(path)}

    def owners(self) -> set[tuple[str, str]]:
        """Kind and name of the controllers of its objects."""
        found = [one["metadata"]["ownerReferences"] for one in self.objects().values()]
        assert {len(owners) for owners in found} == {1}
        return {(owners[0]["kind"], owners[0]["name"]) for owners in found}

    def until_owned_by(self, kind: str, name: str) -> None:
        """Wait until all objects have this controller, and no other."""

        def owned() -> bool:
            assert self.owners() == {(kind, name)}
            return True

        eventually(owned, f"{kind} {name} owns the objects")

    def write_as_before(self) -> list[int]:
        """Write the objects as a release up to 0.3.0 does; the answers."""
        kinds = {"workloads": "Workload", "compositepodgroups": "CompositePodGroup", "podgroups": "PodGroup"}
        answers = []
        for path, one in self.objects().items():
            metadata = {key: one["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
            for part, keys in NEW.items():
                stored = one["metadata"].get(part, {})
                metadata[part] = {key: value for key, value in stored.items() if key not in keys}
            sent = {
                "apiVersion": path.removeprefix("/apis/").partition("/namespaces/")[0],
                "kind": kinds[path.rsplit("/", 2)[1]],
                "metadata": metadata,
                "spec": without_disruption_mode(one["spec"]),
            }
            answer = self.plane.http.patch(
                path,
                params={"fieldManager": "rollcall", "force": "true"},
                json=sent,
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
            answers.append(answer.status_code)
        return answers


def without_disruption_mode(value: object) -> object:
    if isinstance(value, dict):
        kept = {key: found for key, found in value.items() if key not in {"disruptionMode", "priority"}}
        return {key: without_disruption_mode(found) for key, found in kept.items() if found is not None}
    return [without_disruption_mode(one) for one in value] if isinstance(value, list) else value


@pytest.fixture
def gang(
    plane: ControlPlane,
    namespace: str,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    grove: Grove,
    nodes: Nodes,
) -> Gang:
    scheduler(plane, "kube")
    nodes(1)
    rollcall(plane, configuration())
    process = reconciler(configuration())
    process.until_leading()
    made = grove(two_cliques("demo", namespace)).create()
    made.lift_gates()
    is_bound(made, 3)
    return Gang(plane, made, process)


def test_an_earlier_release_can_write_the_objects_that_were_given_back(gang: Gang, reconciler: Reconcilers) -> None:
    gang.until_owned_by("PodCliqueSet", "demo")
    specs = {path: one["spec"] for path, one in gang.objects().items()}
    assert gang.give_back() == (0, "")
    gang.until_owned_by("PodGang", "demo-0")
    gang.reconciler.until_settled()
    # A reconciler of this release that still runs leaves them to the PodGang.
    assert gang.owners() == {("PodGang", "demo-0")}
    assert gang.reconciler.metric("rollcall_gangs_owned_by_podgang") == 1
    gang.reconciler.program.stop()
    assert set(gang.write_as_before()) == {200}
    assert {path: one["spec"] for path, one in gang.objects().items()} == specs
    # The earlier release removed the annotation, so this one takes them over again.
    reconciler(configuration()).until_leading()
    gang.until_owned_by("PodCliqueSet", "demo")


@pytest.mark.soak
def test_a_renamed_gang_cannot_go_back(gang: Gang, play_next: PlayNext) -> None:
    made = play_next(two_cliques("demo", gang.made.namespace)).migrate()
    gang.reconciler.until_settled()
    code, printed = gang.give_back()
    assert code == 1
    assert printed == (
        f"PodGang {gang.made.namespace}/{made.podgangs[0]}: its objects are named demo-0; recreate its "
        "PodCliqueSet demo once the earlier release runs\n"
    )
    gang.until_owned_by("PodCliqueSet", "demo")
