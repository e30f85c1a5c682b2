"""Topology spread constraints that limit a gang, whatever other pods there are.

Only those with `minDomains` do: otherwise a pod of another workload in a domain where the gang cannot go permits more
pods elsewhere. Source: Kubernetes 1.37, pkg/scheduler/framework/plugins/podtopologyspread/filtering.go.
"""

from __future__ import annotations

from webhook.fit.pods import Spread
from webhook.fit.selectors import is_sure, sure_labels, surely_matches
from webhook.model.fields import Item
from webhook.model.reading import integer, mapping, sequence, text
from webhook.model.workloads.podtemplate import PodTemplate

# More constraints are not judged.
_MOST_CONSTRAINTS = 16


def spread_of(template: PodTemplate) -> tuple[Spread, ...]:
    """Return the constraints that count the pods of the template itself. Raises `Malformed`."""
    constraints = sequence(template.spec.get("topologySpreadConstraints"))[:_MOST_CONSTRAINTS]
    if not constraints:
        return ()
    own = sure_labels(template.labels)
    found: list[Spread] = []
    for index, one in enumerate(map(mapping, constraints)):
        key, most = text(one.get("topologyKey")), integer(one.get("maxSkew")) or 0
        domains = integer(one.get("minDomains")) or 0
        if key is None or most < 1 or domains < 1 or one.get("whenUnsatisfiable") != "DoNotSchedule":
            continue
        # Pods with other values of such a label are not counted.
        counted = all(text(name) in own and is_sure(text(name) or "") for name in sequence(one.get("matchLabelKeys")))
        if counted and surely_matches(one.get("labelSelector"), own):
            at = template.spec_path / "topologySpreadConstraints" / Item(index)
            found.append(Spread(key, domains, most, at))
    return tuple(found)
