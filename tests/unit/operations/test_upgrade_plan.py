"""The plan of an upgrade for several gangs: the worst counts, the steps are in order, and what is not known is said."""

from __future__ import annotations

from dataclasses import replace

from tests.texts import Text
from webhook.gangs.object_plan import GangObjectWriter
from webhook.operations.releases import ChangeOutcome, PresentGang, Product, Release, gang
from webhook.operations.upgrade_plan import UNAFFECTED, Upgrade, UpgradePlan, upgrade_plan

BARE = gang("bare", owners=frozenset({"PodCliqueSet"}), missing=True)
NEW = gang("new", owners=frozenset({"PodCliqueSet"}))
KUBE = gang(
    "kube",
    "default-scheduler",
    owners=frozenset({"PodCliqueSet"}),
    versions=frozenset({"scheduling.k8s.io/v1alpha2"}),
)
JOB = gang("job", kind="Job", workload="job", owners=frozenset({"Job"}))


def planned(*gangs: PresentGang, moves: dict[str, str] | None = None, **to: str) -> UpgradePlan:
    targets = {Product(name): Release(version) for name, version in to.items()}
    return upgrade_plan(Upgrade(targets, moves or {}), gangs)


def outcomes(found: UpgradePlan) -> dict[str, str]:
    return {one.gang.name: one.outcome.value for one in found.verdicts}


def test_each_gang_gets_its_own_verdict() -> None:
    found = planned(BARE, NEW, JOB, grove="v0.1.0-alpha.13")
    assert outcomes(found) == {"bare": "unknown", "new": "continues", "job": "continues"}
    assert found.counts == {ChangeOutcome.CONTINUES: 2, ChangeOutcome.UNKNOWN: 1, ChangeOutcome.RECREATE: 0}


def test_the_worst_of_several_facts_counts_and_comes_first() -> None:
    found = planned(KUBE, grove="v0.1.0-alpha.13", kubernetes="1.37")
    (one,) = found.verdicts
    assert [effect.change for effect in one.effects] == ["kubernetes/workload-v1alpha2", "grove/podgangs-replaced"]
    assert one.outcome is ChangeOutcome.RECREATE


def test_the_steps_are_in_the_order_of_the_products() -> None:
    found = planned(BARE, KUBE, grove="v0.1.0-alpha.13", kubernetes="1.37", kai="0.17.1")
    assert [(one.product, one.change, one.do.split()[0]) for one in found.steps] == [
        (Product.KAI, "", "upgrade"),
        (Product.KUBERNETES, "kubernetes/workload-v1alpha2", "delete"),
        (Product.KUBERNETES, "", "upgrade"),
        (Product.KUBERNETES, "kubernetes/workload-v1alpha2", "create"),
        (Product.GROVE, "grove/gang-objects-incomplete", "repair"),
        (Product.GROVE, "", "upgrade"),
    ]


def test_a_present_gang_keeps_its_scheduler() -> None:
    found = planned(BARE, KUBE, moves={"koord-scheduler": "kai-scheduler"})
    assert outcomes(found) == {"bare": "continues", "kube": "continues"}
    assert [one.effects[0].why for one in found.verdicts] == [
        Text("koord-scheduler", "kai-scheduler"),
        UNAFFECTED,
    ]
    assert [one.do for one in found.steps] == [
        Text("enable", "kai-scheduler"),
        Text("keep koord-scheduler running"),
        Text("delete and create", "explain --scheduler kai-scheduler"),
    ]


def test_gangs_of_kubernetes_1_37_go_on_in_1_38_with_what_has_to_be_kept() -> None:
    tree = replace(KUBE, versions=frozenset({"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3"}))
    found = planned(tree, BARE, kubernetes="1.38")
    assert outcomes(found) == {"kube": "continues", "bare": "continues"}
    assert [one.do for one in found.steps] == [
        Text("remove the feature gate PodGroupPreemptionPolicy", "v1beta1=true"),
        Text("CompositePodGroup", "v1alpha3 served until"),
        "upgrade kubernetes to 1.38",
    ]


def test_a_later_release_than_those_that_were_read_is_unknown() -> None:
    beta = replace(KUBE, versions=frozenset({"scheduling.k8s.io/v1beta1"}))
    assert outcomes(planned(BARE, beta, kubernetes="1.39")) == {"bare": "continues", "kube": "unknown"}
    assert outcomes(planned(NEW, JOB, grove="v0.1.0-alpha.14")) == {"new": "unknown", "job": "continues"}
    (one,) = planned(NEW, grove="v0.2.0").verdicts
    assert one.effects[0].why == Text("grove v0.2.0")


def test_a_gang_whose_objects_are_not_known_is_unknown_where_a_product_touches_it() -> None:
    hidden = replace(BARE, writer=GangObjectWriter.OTHER, unknown="it is hidden")
    assert outcomes(planned(hidden, grove="v0.1.0-alpha.13")) == {"bare": "unknown"}
    assert outcomes(planned(hidden, koordinator="1.8")) == {"bare": "unknown"}
    assert outcomes(planned(hidden, kai="0.17.1")) == {"bare": "continues"}


def test_podgangs_of_one_name_in_two_namespaces_mix_in_an_old_kai() -> None:
    one = gang(scheduler="kai-scheduler", writer=GangObjectWriter.GROVE, restarts=frozenset({"Always"}))
    twins = one, replace(one, namespace="other")
    assert [found.effects[0].change for found in planned(*twins, kai="0.17.1").verdicts] == ["kai/podgroup-twins"] * 2
    assert outcomes(planned(one, kai="0.17.1")) == {"demo-0": "continues"}


def test_a_fix_that_was_backported_ends_a_fact_in_its_series() -> None:
    one = gang(scheduler="kai-scheduler", writer=GangObjectWriter.GROVE, restarts=frozenset({"Always"}))
    twins = one, replace(one, namespace="other")
    mixing = {to for to in KAIS if "kai/podgroup-twins" in changes(planned(*twins, kai=to))}
    assert mixing == {"0.14.8", "0.15.3", "0.16.9"}
    in_part = {to for to in KAIS if "kai/gang-floor" in changes(planned(*twins, kai=to))}
    assert in_part == set(KAIS) - {"0.17.2"}


def changes(found: UpgradePlan) -> set[str]:
    return {effect.change for verdict in found.verdicts for effect in verdict.effects}


KAIS = ("0.14.8", "0.14.9", "0.14.10", "0.15.3", "0.16.9", "0.17.2")


def test_podgangs_that_share_a_pod_group_are_no_twins_and_those_of_another_namespace_are() -> None:
    one = gang(
        scheduler="kai-scheduler",
        writer=GangObjectWriter.GROVE,
        restarts=frozenset({"Always"}),
        pod_group="grove-demo-0",
    )
    shared = one, replace(one, name="demo-0-1788-decode-1")
    assert set(outcomes(planned(*shared, kai="0.17.1")).values()) == {"continues"}
    twins = one, replace(one, name="demo-0-1789", namespace="other")
    assert [found.effects[0].change for found in planned(*twins, kai="0.17.1").verdicts] == ["kai/podgroup-twins"] * 2


REPAIR = Text("repair the gang first")


def test_the_plan_as_json() -> None:
    assert planned(BARE, grove="v0.1.0-alpha.13").as_json() == {
        "to": {"grove": "v0.1.0-alpha.13"},
        "scheduler": {},
        "gangs": [
            {
                "namespace": "default",
                "name": "bare",
                "kind": "PodGang",
                "scheduler": "koord-scheduler",
                "writer": "Rollcall",
                "state": "started",
                "pods": 1,
                "outcome": "unknown",
                "effects": [
                    {
                        "change": "grove/gang-objects-incomplete",
                        "product": "grove",
                        "outcome": "unknown",
                        "why": Text("PodGang"),
                        "before": REPAIR,
                        "after": None,
                        "source": "https://github.com/ai-dynamo/grove/pull/778",
                    }
                ],
            }
        ],
        "order": [
            {
                "product": "grove",
                "change": "grove/gang-objects-incomplete",
                "do": REPAIR,
            },
            {"product": "grove", "change": None, "do": "upgrade grove to v0.1.0-alpha.13"},
        ],
        "summary": {"gangs": 1, "continues": 0, "unknown": 1, "must be re-created": 0},
    }


def test_nothing_lives() -> None:
    assert planned(grove="v0.1.0-alpha.13").verdicts == ()
