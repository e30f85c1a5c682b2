"""The JSON Schema of the report that `rollcall check -o json` prints and `POST /check` answers."""

from __future__ import annotations

from typing import Any

from webhook.model.findings import Reason
from webhook.offline.levels import FailOn, Level
from webhook.offline.suppression import Origin
from webhook.reports.json_report import REPORT_VERSION
from webhook.reports.schema_parts import COUNT, TEXT, TEXT_OR_NULL, TRUTH, enum_of, list_of, object_of

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
        "oneOf": [
            {"type": "null"},
            object_of(
                {
                    "kind": enum_of(Origin, _WRITTEN),
                    "reason": TEXT,
                }
            ),
        ],
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
        "reason": enum_of(Reason, "Why the object, or a part of it, was not judged."),
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
    """Return the schema. Later releases may add fields."""
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
