"""The part of a pod's labels, annotations and spec that is kept.

Users write most of them, and a gang needs all of its pods. So a pod is always kept, and entries that do not fit are
left out. The keys that Rollcall reads are kept first. The others are for backends of other projects, which may write
any key.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from webhook.model import grove
from webhook.model.bounds import entries_kept, latest_equal, shared
from webhook.model.capabilities import KAI_QUEUE, QOS_LABEL, QUOTA_LABEL
from webhook.model.claims import CLAIMS
from webhook.model.kueue import keys as kueue
from webhook.model.reading import Manifest, mapping
from webhook.model.rows import Row
from webhook.model.workloads.gang import GANG_LABEL, MEMBER_LABEL
from webhook.model.workloads.place import JOB_INDEX, LWS_REVISION, LWS_SIZE, NAME_LABELS, REPLICATED_JOB_NAME
from webhook.mutators.prepare_pod import STAMP_ANNOTATION

_latest = latest_equal(4096)

Part = Literal["labels", "annotations", "spec"]

# A label on pods of scaled gangs: Grove removes their gates only after this gang runs.
BASE_PODGANG = "grove.io/base-podgang"
# By these keys a pod names its Workload of Kueue, the first first.
KUEUE_NAMES = (kueue.WORKLOAD, kueue.PREBUILT_WORKLOAD, kueue.POD_GROUP_NAME)

# Keys that Rollcall reads, which are always kept.
READ: Mapping[Part, frozenset[str]] = {
    "labels": frozenset(
        {
            grove.LABEL_MANAGED_BY,
            grove.LABEL_PART_OF,
            grove.LABEL_PODGANG,
            grove.LABEL_PODCLIQUE,
            grove.LABEL_REPLICA,
            grove.LABEL_SCALING_GROUP,
            grove.LABEL_SCALING_GROUP_REPLICA,
            BASE_PODGANG,
            GANG_LABEL,
            MEMBER_LABEL,
            *NAME_LABELS.values(),
            REPLICATED_JOB_NAME,
            JOB_INDEX,
            LWS_REVISION,
            QUOTA_LABEL,
            QOS_LABEL,
            KAI_QUEUE,
            *KUEUE_NAMES,
            *(mark.key for mark, _ in CLAIMS if mark.part == "labels"),
        }
    ),
    "annotations": frozenset(
        {STAMP_ANNOTATION, LWS_SIZE, *KUEUE_NAMES, *(mark.key for mark, _ in CLAIMS if mark.part == "annotations")}
    ),
    "spec": frozenset(
        {
            "schedulerName",
            "priorityClassName",
            "priority",
            "preemptionPolicy",
            *(mark.key for mark, _ in CLAIMS if mark.part == "spec"),
        }
    ),
}
# Bytes for the other keys. Pods with the sidecars and networks of a large cluster need less.
_ROOM: Mapping[Part, int] = {"labels": 8 * 1024, "annotations": 6 * 1024, "spec": 4 * 1024}
# Fields of a pod's spec that do not matter for its gang and are most of it. Its node and its gates are read separately.
_UNREAD = frozenset(
    {
        "affinity",
        "containers",
        "dnsConfig",
        "ephemeralContainers",
        "hostAliases",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "schedulingGates",
        "securityContext",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    }
)
# kubectl's copy of the whole manifest.
_COPY = "kubectl.kubernetes.io/last-applied-configuration"


# Each other empty set is an object of its own.
_WHOLE: frozenset[Part] = frozenset()


class PodParts(NamedTuple):
    """The kept parts of a pod, which preparation may have written. `cut` lists the parts that were shortened."""

    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]
    cut: frozenset[Part]


def parts_of(raw: Manifest) -> PodParts:
    """The parts of a pod that are kept. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    annotations = {key: value for key, value in mapping(metadata.get("annotations")).items() if key != _COPY}
    spec = {field: value for field, value in mapping(raw.get("spec")).items() if field not in _UNREAD}
    whole: dict[Part, Mapping[str, Any]] = {
        "labels": mapping(metadata.get("labels")),
        "annotations": annotations,
        "spec": spec,
    }
    kept = {part: _shared(entries_kept(found, READ[part], _ROOM[part])) for part, found in whole.items()}
    cut = frozenset(part for part, found in whole.items() if len(kept[part]) < len(found)) or _WHOLE
    return PodParts(kept["labels"], kept["annotations"], kept["spec"], cut)


def _shared(found: Mapping[str, Any]) -> Row[Any]:
    """The same entries, with one object for equal keys and texts: the pods of a gang differ in few of them."""
    values = (shared(value) if type(value) is str else value for value in found.values())
    row = Row[Any](_places(tuple(found)), tuple(values))
    try:
        return _latest(row)
    except TypeError:
        # A value that is a list or a map.
        return row


@lru_cache(maxsize=4096)
def _places(keys: tuple[str, ...]) -> Mapping[str, int]:
    return {shared(key): place for place, key in enumerate(keys)}
