"""What tenants may write to make the judgement slow, or to make it fail: the work stays small."""

from __future__ import annotations

import pytest

from tests.unit.fit.gangs import GPU, gang, nodes, pods, role, room
from webhook.fit.feasibility import judge
from webhook.fit.ground import conflicts_of
from webhook.fit.packing import Packing
from webhook.fit.pod_needs import HostPort, Requirement, apart_of
from webhook.fit.verdict import STEPS, FitAnswer
from webhook.model.fields import SPEC
from webhook.model.nodes import node_of
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import Malformed, integer
from webhook.offline.fact_files import facts_in
from webhook.workloads.opted_in_workload import TemplatePlace

ANYWHERE = "0.0.0.0"  # noqa: S104 - what a pod may state; nothing is opened


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (HostPort(1, "TCP", ""), HostPort(1, "TCP", "10.0.0.1"), False),
        (HostPort(1, "TCP", ANYWHERE), HostPort(1, "TCP", ""), False),
        (HostPort(1, "TCP", "10.0.0.1"), HostPort(1, "TCP", "10.0.0.1"), False),
        (HostPort(1, "TCP", "10.0.0.1"), HostPort(1, "TCP", "10.0.0.2"), True),
        (HostPort(1, "TCP", ""), HostPort(1, "UDP", ""), True),
        (HostPort(1, "TCP", ""), HostPort(2, "TCP", ""), True),
    ],
)
def test_pods_with_a_host_port_in_common_share_no_node(one: HostPort, other: HostPort, together: bool) -> None:
    roles = [role("a", 1, ports=(one,)), role("b", 1, ports=(other,))]
    found = conflicts_of(roles, {"a": 0, "b": 1}, {})
    assert found.node == ((0b01, 0b10) if together else (0b11, 0b11))
    verdict = judge(Packing((gang(*(pods(each, 1) for each in roles)),)), room(nodes(1, 8, "a b")))
    assert verdict.answer is (FitAnswer.FITS if together else FitAnswer.NEVER)


def test_sixty_roles_of_hundreds_of_ports_each_are_placed() -> None:
    roles = [
        role(f"r{index}", 1, ports=tuple(HostPort(1 + index * 250 + each, "TCP", "") for each in range(250)))
        for index in range(60)
    ]
    verdict = judge(
        Packing((gang(*(pods(one, 1) for one in roles)),)),
        room(nodes(8, 8, " ".join(one.name for one in roles))),
        STEPS,
    )
    assert verdict.answer is FitAnswer.FITS


def test_long_selectors_of_many_roles_are_held_against_their_own_pods_only() -> None:
    def template(name: str, entries: int) -> PodTemplate:
        expressions = [{"key": "app", "operator": "Exists"}] * entries
        term = {"topologyKey": "rack", "labelSelector": {"matchExpressions": expressions}}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return PodTemplate({"labels": {"app": name}}, {"affinity": affinity}, TemplatePlace(SPEC))

    few = {name: template(name, 3) for name in ("a", "b")}
    ((found,), _) = apart_of(few["a"], few, stored=True, namespace="default")
    assert found.roles == {"a", "b"}
    many = {f"r{index}": template(f"r{index}", 60) for index in range(60)}
    ((found,), _) = apart_of(many["r7"], many, stored=True, namespace="default")
    assert found.roles == {"r7"}


def test_a_number_of_more_than_64_bits_is_not_read() -> None:
    assert integer(2**63 - 1) == 2**63 - 1
    with pytest.raises(Malformed):
        integer(10**400)


def test_a_label_with_leading_zeros_is_a_number() -> None:
    assert Requirement("gen", "Gt", ("3",)).admits("0" * 30 + "5")
    assert not Requirement("gen", "Gt", ("3",)).admits("9" * 30)


def test_a_node_without_allocatable_has_its_capacity() -> None:
    found = node_of({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8", "pods": "10", GPU: "4"}}})
    assert dict(found.allocatable) == {"cpu": 8000, "pods": 10, GPU: 4}
    assert dict(found.highest) == {"cpu": 8000, "pods": 10, GPU: 4}


def test_one_page_of_a_list_of_nodes_is_not_all_nodes() -> None:
    page = {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n"}, "status": {}}]}
    assert "nodes" not in (facts_in([page]).partial or ())
    assert facts_in([{**page, "metadata": {"continue": "abc"}}]).partial == frozenset({"nodes"})
