"""Checks of the net: the ValidatingAdmissionPolicy that judges a gang's pods while nobody answers."""

from __future__ import annotations

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed
from webhook.doctor.parts import POLICIES, POLICY_BINDINGS
from webhook.doctor.world import World
from webhook.model.projections import name_of
from webhook.model.reading import Manifest, mapping, sequence

NET = "rollcall-net"
_OFF = "off"
_REDO = "rollcall manifests net --config FILE | kubectl apply -f -"


def _net(*actions: str) -> list[Manifest]:
    policy: Manifest = {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": NET}, "spec": {}}
    binding = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NET},
        "spec": {"policyName": NET, "validationActions": list(actions)},
    }
    return [{"apiVersion": "admissionregistration.k8s.io/v1", **one} for one in (policy, binding)]


@check(
    "net/registered",
    level=Level.WARNING,
    well=lambda: installed(*_net("Deny"), settings=configured(registration={"net": "Deny"})),
    ill=lambda: installed(*_net("Warn", "Audit"), settings=configured(registration={"net": "Deny"})),
)
def net(world: World) -> Symptoms:
    """The net is as `registration.net` says: the policy rollcall-net is there, bound with that action; and where it is
    off, none that somebody has left.

    Source: docs/net.md; Kubernetes documentation, "Validating Admission Policy".
    """
    wanted = world.settings.registration.net
    policy = any(name_of(raw) == NET for raw in world.all(POLICIES))
    specs = [mapping(raw.get("spec")) for raw in world.all(POLICY_BINDINGS)]
    bound = [set(sequence(spec.get("validationActions"))) for spec in specs if spec.get("policyName") == NET]
    where = f"ValidatingAdmissionPolicy {NET}"
    if wanted == _OFF:
        if policy and bound:
            why = "it goes on judging pods by what an earlier configuration said"
            yield Symptom(where, "it is there, and registration.net is off", why, f"remove it, or say {_REDO}")
        return
    unheld = "while nobody answers, a gang's pod that was not made one starts alone"
    if not policy or not bound:
        found = "it is not there" if not policy else "nothing binds it"
        yield Symptom(where, f"{found}, and registration.net is {wanted}", unheld, f"install it: {_REDO}")
    elif any(wanted not in actions for actions in bound):
        said = sorted(set.union(*bound))
        yield Symptom(where, f"bound with {', '.join(said)}, and registration.net is {wanted}", unheld, _REDO)
