"""The fields that are read of the Workload API's objects, in each of its generations, with the type of each field."""

from __future__ import annotations

from typing import Any

from webhook.backends.kube.judged import COMPOSITES, POD_GROUPS, WORKLOADS
from webhook.model.group_tree import MAX_DEPTH

_POLICY: dict[str, Any] = {"gang": {"minCount": int, "minGroupCount": int}}
_GROUP: dict[str, Any] = {
    "parentCompositePodGroupName": str,
    "workloadRef": {"workloadName": str, "templateName": str},
    "podGroupTemplateRef": {"workload": {"workloadName": str, "podGroupTemplateName": str}},
    "schedulingPolicy": _POLICY,
    "policy": _POLICY,
    "schedulingConstraints": {"topology": [{"key": str}]},
    # A string in 1.36, and an object since.
    "disruptionMode": (str, dict),
    "priorityClassName": str,
    "priority": int,
}


def _templates(levels: int) -> dict[str, Any]:
    """The lists of templates, as deep as a Workload may nest them. Deeper lists have no path."""
    template = {"name": str, **_GROUP}
    below = _templates(levels - 1) if levels else {}
    return {"podGroupTemplates": [template], "compositePodGroupTemplates": [{**template, **below}]}


SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    WORKLOADS[:2]: {"spec": {"podGroups": [{"name": str, **_GROUP}], **_templates(MAX_DEPTH)}},
    POD_GROUPS[:2]: {"spec": _GROUP},
    COMPOSITES[:2]: {"spec": _GROUP},
}
