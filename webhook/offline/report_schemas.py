"""The JSON Schemas of what `rollcall check -o json`, `POST /check` and `rollcall fit -o json` print."""

from __future__ import annotations

from typing import Any

from webhook.fit.feasibility import RoomAnswer
from webhook.fit.verdict import FitAnswer, FitFamily, FitScope
from webhook.model.findings import OmissionReason
from webhook.offline.finding_details import FailOn, Level, Origin
from webhook.offline.report_json import REPORT_VERSION

TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}
COUNT = {"type": "integer", "minimum": 0}
TRUTH = {"type": "boolean"}


def object_of(fields: dict[str, Any], optional: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, **more}


def list_of(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def enum_of(words: Any, description: str) -> dict[str, Any]:
    return {"enum": sorted(str(word) for word in words), "description": description}


def or_null(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "oneOf": [{"type": "null"}, schema]}


_PLACE = {
    "file": {**TEXT, "description": "The file as it was named; `<stdin>` or `body` without a file."},
    "line": COUNT,
    "column": COUNT,
    "endLine": COUNT,
    "endColumn": {**COUNT, "description": "The column behind the key of the field."},
    "object": object_of(
        {
            "kind": TEXT,
            "namespace": TEXT,
            "name": TEXT,
            "scheduler": {**TEXT_OR_NULL, "description": "The scheduler that the object was judged for."},
            "chosenBy": {**TEXT_OR_NULL, "description": "What chose that scheduler: a field, an option, `default`."},
        }
    ),
}
_RULE = {
    "rule": TEXT,
    "ruleUrl": {**TEXT_OR_NULL, "description": "The section about the rule; relative to the project in some builds."},
    "field": {**TEXT, "description": "The path of the field in the object."},
}
_CHANGE = {"path": TEXT, "from": {"description": "The old value."}, "to": {"description": "The new value, or null."}}
_EDIT = {
    **{name: {"type": "integer", "minimum": 1} for name in ("line", "column", "endLine", "endColumn")},
    "text": {**TEXT, "description": "What stands there instead."},
}
_FIX = {
    "scheduler": TEXT,
    "changes": list_of(object_of(_CHANGE), minItems=1),
    "patch": list_of({"type": "object"}, description="The same as a JSON Patch (RFC 6902) of the object."),
    "edits": list_of(
        object_of(_EDIT), description="The same as replacements in the file; empty if it cannot be written."
    ),
}
_WRITTEN = "`external` is the baseline, `exception` an exception of the configuration."
_FINDING = {
    **_RULE,
    "level": enum_of(Level, "Its weight: an error refuses the object."),
    "action": {"enum": ["audit", "deny", "warn"], "description": "The configured action of the rule."},
    "fails": {**TRUTH, "description": "Whether it fails this check."},
    "found": {"type": ["string", "number", "boolean", "null"], "description": "The value, if it is a single one."},
    "why": TEXT,
    "remedy": TEXT,
    "message": TEXT,
    "exception": {
        "description": "The exception of the configuration that covers it, so the webhook does not refuse it either.",
        "oneOf": [{"type": "null"}, object_of(dict.fromkeys(("name", "grantedBy", "until", "reason"), TEXT))],
    },
    "suppression": {
        "description": "Why it is accepted.",
        "oneOf": [{"type": "null"}, object_of({"kind": enum_of(Origin, _WRITTEN), "reason": TEXT})],
    },
    "fix": {
        "description": "The smallest edit after which nothing refuses the object.",
        "oneOf": [{"type": "null"}, object_of(_FIX)],
    },
    **_PLACE,
}
_COUNTS = (
    "error",
    "warning",
    "audit",
    "notJudged",
    "objectsNotJudged",
    "objectsJudgedInPart",
    "suppressed",
    "fixable",
    "unreadable",
)
_LEFT_OUT = object_of(
    {
        "reason": enum_of(OmissionReason, "Why the object, or a part of it, was not judged."),
        "field": {**TEXT, "description": "The path of the field that shows it."},
        "why": TEXT,
        "remedy": {**TEXT, "description": "The edit after which it is judged."},
        "message": TEXT,
        **_PLACE,
    }
)
_SCHEDULER = {"scheduler": TEXT, "chosenBy": TEXT_OR_NULL, "objects": COUNT}
_UNREADABLE = {"file": TEXT, "line": COUNT, "column": COUNT, "message": TEXT}


def report_schema() -> dict[str, Any]:
    """Returns the schema. Later releases may add fields."""
    fields = {
        "reportVersion": {"const": REPORT_VERSION},
        "tool": object_of({"name": {"const": "rollcall"}, "version": TEXT}),
        "passed": {**TRUTH, "description": "Whether the check passes: nothing fails and everything can be read."},
        "clean": {
            **TRUTH,
            "description": "Whether there is nothing to do: no finding that counts, and everything judged.",
        },
        "failOn": list_of(enum_of(FailOn, "What fails the check.")),
        "judged": {**COUNT, "description": "Objects that the rules about their kind judged."},
        "judgedByGroup": {**COUNT, "description": "Workloads that were judged with the group that their pods name."},
        "ignored": {**COUNT, "description": "Documents of kinds that have no rules."},
        "counts": object_of(dict.fromkeys(_COUNTS, COUNT), description="Suppressed findings are only in `suppressed`."),
        "reasons": {
            "type": "object",
            "additionalProperties": COUNT,
            "description": "The number of objects that were not judged, by reason.",
        },
        "rules": {
            "type": "object",
            "additionalProperties": COUNT,
            "description": "The number of findings of each rule.",
        },
        "schedulers": list_of(object_of(_SCHEDULER), description="The schedulers of the judged objects."),
        "findings": list_of(object_of(_FINDING)),
        "notJudged": list_of(
            object_of(
                {
                    **_RULE,
                    "needs": {**TEXT, "description": "The fact that is unknown."},
                    "remedy": {**TEXT, "description": "How to supply it; empty if the rule does not say."},
                    **_PLACE,
                }
            )
        ),
        "objectsNotJudged": list_of(_LEFT_OUT, description="Objects that no rule of their kind judged."),
        "objectsJudgedInPart": list_of(
            _LEFT_OUT,
            description="Objects with a finding of which a part was not judged, such as a gang that is not opted in.",
        ),
        "notes": list_of(object_of({"message": TEXT, **_PLACE})),
        "couldRun": list_of(
            object_of({"schedulers": list_of(TEXT), **_PLACE}),
            description="Refused objects that other schedulers could run as they are written.",
        ),
        "unreadable": list_of(object_of(_UNREADABLE), description="Files and documents that cannot be read."),
        "ignoredDocuments": list_of(
            object_of({"file": TEXT, "line": COUNT, "kind": TEXT_OR_NULL}), description="Only with --list-ignored."
        ),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rollcall report",
        "description": "What `rollcall check -o json` prints, and what `POST /check` answers.",
        **object_of(fields, optional=("ignoredDocuments",)),
    }


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
        "family": enum_of(FitFamily, "What the gang does not fit into."),
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
        "answer": enum_of(RoomAnswer, "Whether the nodes have room now."),
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
    "verdict": enum_of(FitAnswer, "`never` is a proof, `fits` has a placement on the empty cluster, else `unknown`."),
    "scope": {
        "enum": [None, *sorted(map(str, FitScope))],
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

_FIT_SCHEMA_PLACE = ("kind", "namespace", "name", "file", "line", "column")


def fit_schema() -> dict[str, Any]:
    """Returns the schema. Later releases may add fields."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rollcall fit",
        "description": "What `rollcall fit -o json` prints.",
        **object_of(
            {
                "fitVersion": {"const": FIT_VERSION},
                "gangs": list_of(object_of(_GANG)),
                "notJudged": list_of(
                    object_of({name: _GANG[name] for name in _FIT_SCHEMA_PLACE} | {"why": TEXT}),
                    description="Workloads of which no gang was judged.",
                ),
                "notes": list_of(object_of({"file": TEXT, "line": COUNT, "column": COUNT, "message": TEXT})),
            }
        ),
    }
