"""Checks of the net: the ValidatingAdmissionPolicy that protects gangs while Rollcall is down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed
from webhook.doctor.parts import POLICIES, POLICY_BINDINGS
from webhook.doctor.snapshot import Snapshot
from webhook.installation.names import NAMESPACE, NET
from webhook.installation.net import net_policy
from webhook.model.projections import name_of
from webhook.model.reading import Manifest, mapping, sequence

_REDO = "rollcall manifests net --config FILE | kubectl apply -f -"
# Fields that define a policy; the API server fills in some of the others.
_COMPARED = ("matchConditions", "variables", "validations")

Key = tuple[str, str]


def _warning(raw: Manifest) -> None:
    raw["spec"].update(validationActions=["Warn", "Audit"])


def _denying(changed: Callable[[Manifest], None] = lambda _: None) -> Snapshot:
    settings = configured(registration={"net": "Deny"})
    objects = net_policy(settings, NAMESPACE)
    for raw in objects:
        if raw["kind"] == POLICY_BINDINGS.resource.api.kind:
            changed(raw)
    return installed(*objects, settings=settings)


@check("net/registered", level=Level.WARNING, passes=_denying, fails=lambda: _denying(_warning))
def net(snapshot: Snapshot) -> Symptoms:
    """The net is as `registration.net` says. The policy rollcall-net and its bindings are those that `rollcall
    manifests net` prints, with the configured action. If the net is off, none of them exists.

    Source: Kubernetes documentation, "Validating Admission Policy".
    """
    live = {_key(raw): raw for part in (POLICIES, POLICY_BINDINGS) for raw in snapshot.all(part) if _is_ours(raw)}
    wanted = {_key(raw): raw for raw in net_policy(snapshot.settings, snapshot.namespace)}
    for key in sorted(live.keys() - wanted.keys()):
        why = "it still judges pods by an earlier configuration"
        yield Symptom(" ".join(key), "it exists, but would not be printed", why, f"kubectl delete {'/'.join(key)}")
    for key, said in _differences(wanted, live):
        why = "while no server answers, an unprepared pod of a gang can start alone, or a prepared one can be refused"
        yield Symptom(" ".join(key), said, why, f"apply what is printed: {_REDO}")


def _key(raw: Manifest) -> Key:
    return str(raw["kind"]), name_of(raw)


def _is_ours(raw: Manifest) -> bool:
    return NET in {name_of(raw), mapping(raw.get("spec")).get("policyName")}


def _differences(wanted: Mapping[Key, Manifest], live: Mapping[Key, Manifest]) -> Iterator[tuple[Key, str]]:
    for key, printed in wanted.items():
        if key not in live:
            yield key, "it is missing"
            continue
        should, does = mapping(printed.get("spec")), mapping(live[key].get("spec"))
        fields = [field for field in _COMPARED if list(sequence(should.get(field))) != list(sequence(does.get(field)))]
        if fields:
            yield key, f"its {' and '.join(fields)} differ from those that are printed"
        actions, others = (set(sequence(spec.get("validationActions"))) for spec in (should, does))
        if actions != others:
            yield key, f"its validationActions are {', '.join(sorted(others))} and not {', '.join(sorted(actions))}"
