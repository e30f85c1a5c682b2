"""POST /check and /capabilities in a cluster: turned off, or without facts about the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.cluster.world import World
from tests.unit.server.test_capabilities import ask
from tests.unit.server.test_server_endpoints import FINE
from tests.unit.server.test_with_a_cluster import following
from webhook.config.file import settings_from
from webhook.config.sections import API_VERSION, KIND
from webhook.config.settings import Serving, Settings
from webhook.errors import ConfigurationError
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import Quota
from webhook.model.pod_groups import KoordinatorPodGroup, KoordinatorPodGroups
from webhook.server.state import ServerState

PATHS = ("/check", "/capabilities")
POD_GROUP = """\
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata:
  name: mine
  namespace: team-a
  annotations:
    gang.scheduling.koordinator.sh/groups: '["team-a/mine","team-b/theirs"]'
spec: {minMember: 2}
"""


def told(state: ServerState, *, on: bool) -> ServerState:
    state.settings = replace(state.settings, serving=Serving(check=on))
    return state


@pytest.mark.parametrize("path", PATHS)
def test_in_a_cluster_manifest_endpoints_are_off_and_name_the_setting(path: str) -> None:
    (answer,) = ask(following(World()), "POST", path, FINE)
    assert answer.status_code == 403
    assert answer.text.startswith(f"POST {path} ")
    assert 'serving.check: "on"' in answer.text


def test_the_capability_table_is_served_in_a_cluster() -> None:
    (answer,) = ask(following(World()), "GET", "/capabilities", b"")
    assert answer.status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_manifest_endpoints_can_be_turned_off_without_a_cluster(state: ServerState, path: str) -> None:
    assert ask(told(state, on=False), "POST", path, FINE)[0].status_code == 403


def test_enabled_manifest_endpoints_reveal_nothing_about_other_namespaces() -> None:
    group = KoordinatorPodGroup(2, ("team-b/other", "team-b/theirs"))
    known = ClusterFacts(
        koordinator_pod_groups=KoordinatorPodGroups({("team-b", "theirs"): group}),
        elastic_quotas={"theirs": Quota(is_parent=False)},
    )
    with_theirs = told(following(World(), known), on=True)
    without = told(following(World()), on=True)
    answers = [ask(state, "POST", "/check", POD_GROUP)[0] for state in (with_theirs, without)]
    assert answers[0].status_code == 200
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize(
    ("written", "meant"), [("on", True), (True, True), ("off", False), (False, False), (None, None)]
)
def test_the_setting_accepts_the_spellings_of_yaml(written: object, meant: bool | None) -> None:
    assert _configured(written).serving.check is meant


def test_an_unknown_value_of_the_setting_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"serving\.check"):
        _configured("maybe")


def _configured(check: object) -> Settings:
    document = {"apiVersion": API_VERSION, "kind": KIND, "serving": {"check": check}}
    return settings_from(document, "rollcall.yaml")
