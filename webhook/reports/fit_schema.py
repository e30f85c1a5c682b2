"""The JSON Schema of what `rollcall fit -o json` prints."""

from __future__ import annotations

from typing import Any

from webhook.fit.now import NowAnswer
from webhook.fit.verdict import Answer, Family, Scope
from webhook.reports.schema_parts import COUNT, TEXT, TEXT_OR_NULL, enum_of, list_of, object_of, or_null

FIT_VERSION = 1

_AMOUNTS = {
    "type": "object",
    "additionalProperties": {"type": "integer"},
    "description": "By resource: cpu in milli, all else in units.",
}
_SHORT = object_of(
    {
        "resource": {**TEXT, "description": "`pods` counts pods."},
        "needed": {"type": "integer"},
        "there": {"type": "integer"},
    }
)
_WITNESS = object_of(
    {
        "family": enum_of(Family, "What the gang does not fit into."),
        "condition": {**TEXT, "description": "The condition that fails, as docs/explanation/fit.md names it."},
        "at": {**TEXT, "description": "The path of the field at fault."},
        "why": TEXT,
        "remedy": TEXT,
        "members": list_of(TEXT, description="The roles that it is about."),
        "domain": {**TEXT_OR_NULL, "description": "The required domain that comes nearest."},
        "short": list_of(_SHORT),
    }
)
_NOW = object_of(
    {
        "estimate": {"const": True},
        "answer": enum_of(NowAnswer, "Whether the nodes have room now."),
        "domains": list_of(TEXT, description="Where the gang would be placed."),
        "why": TEXT_OR_NULL,
        "nearest": {**TEXT_OR_NULL, "description": "The domain that comes nearest, if it is short."},
        "short": list_of(_SHORT),
        "wouldHaveToGo": or_null(
            object_of({"gangs": list_of(TEXT), "ofOtherNamespaces": COUNT}),
            "Running gangs without which it would fit: those of its own namespace by name, of others their number.",
        ),
    }
)
_DOMAIN = object_of(
    {
        "partition": {**TEXT_OR_NULL, "description": "What kind of domain it is; null for all nodes."},
        "name": TEXT,
        "nodes": COUNT,
        "total": _AMOUNTS,
        "free": or_null(_AMOUNTS, "What is left now; null if it is not known what pods on nodes use."),
    }
)
_GANG = {
    "kind": TEXT,
    "namespace": TEXT,
    "name": {**TEXT, "description": "The workload."},
    "file": TEXT,
    "line": COUNT,
    "column": COUNT,
    "gang": TEXT,
    "more": {**COUNT, "description": "Further gangs of the workload that are equal to this one."},
    "scheduler": TEXT,
    "pods": {"type": "object", "additionalProperties": COUNT, "description": "By role: the pods that it starts with."},
    "surplus": or_null(
        object_of(
            {
                "pods": COUNT,
                "domain": {
                    **TEXT_OR_NULL,
                    "description": "The kind of required domain that must have room for those of them that wait; null "
                    "if the minimum starts without them.",
                },
            }
        ),
        "Pods above the minimum. No verdict counts them.",
    ),
    "verdict": enum_of(Answer, "`never` is a proof, `fits` has a placement on the empty cluster, else `unknown`."),
    "scope": {
        "enum": [None, *sorted(map(str, Scope))],
        "description": "How far `never` reaches: `ever` is cured by no node.",
    },
    "witness": or_null(_WITNESS, "The proof of `never`."),
    "causes": list_of(TEXT, description="Why it is unknown; if it fits, what was not judged."),
    "assumptions": list_of(TEXT, description="What the verdict relies on, because it is about a template."),
    "withoutGrowth": {
        **TEXT_OR_NULL,
        "description": "Why it does not fit the nodes that there are, in a cluster that may grow.",
    },
    "now": or_null(
        _NOW,
        "An estimate; null if it is not known what pods on nodes use, and for a gang that does not fit the nodes that "
        "there are.",
    ),
    "domains": list_of(_DOMAIN),
    "placement": list_of(
        object_of({"role": TEXT, "domain": TEXT_OR_NULL, "node": TEXT, "pods": COUNT}),
        description="One placement on the empty cluster, if it fits.",
    ),
    "steps": {**COUNT, "description": "The work that the verdict took."},
}

_PLACE = ("kind", "namespace", "name", "file", "line", "column")


def fit_schema() -> dict[str, Any]:
    """Return the schema. Later releases may add fields."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rollcall fit",
        "description": "What `rollcall fit -o json` prints.",
        **object_of(
            {
                "fitVersion": {"const": FIT_VERSION},
                "gangs": list_of(object_of(_GANG)),
                "notJudged": list_of(
                    object_of({name: _GANG[name] for name in _PLACE} | {"why": TEXT}),
                    description="Workloads of which no gang was judged.",
                ),
                "notes": list_of(object_of({"file": TEXT, "line": COUNT, "column": COUNT, "message": TEXT})),
            }
        ),
    }
