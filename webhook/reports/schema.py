"""The JSON Schema of the report that `rollcall check -o json` prints and `POST /check` answers."""

from __future__ import annotations

from typing import Any

from webhook.offline.report import FailOn, Level
from webhook.offline.suppression import Origin
from webhook.reports.json_report import REPORT_VERSION

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_TRUTH = {"type": "boolean"}


def _object(fields: dict[str, Any], optional: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, **more}


def _list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _enum(words: Any, description: str) -> dict[str, Any]:
    return {"enum": sorted(str(word) for word in words), "description": description}


_PLACE = {
    "file": {**_TEXT, "description": "The file as it was named; `<stdin>` or `body` without a file."},
    "line": _COUNT,
    "column": _COUNT,
    "endLine": _COUNT,
    "endColumn": {**_COUNT, "description": "The column behind the key of the field."},
    "object": _object(
        {
            "kind": _TEXT,
            "namespace": _TEXT,
            "name": _TEXT,
            "scheduler": {**_TEXT_OR_NULL, "description": "The scheduler that the object was judged for."},
            "chosenBy": {**_TEXT_OR_NULL, "description": "What chose that scheduler: a field, an option, `default`."},
        }
    ),
}
_RULE = {
    "rule": _TEXT,
    "ruleUrl": {**_TEXT_OR_NULL, "description": "The section about the rule; relative to the project in some builds."},
    "field": {**_TEXT, "description": "The path of the field in the object."},
}
_CHANGE = {"path": _TEXT, "from": {"description": "The old value."}, "to": {"description": "The new value, or null."}}
_EDIT = {
    **{name: {"type": "integer", "minimum": 1} for name in ("line", "column", "endLine", "endColumn")},
    "text": {**_TEXT, "description": "What stands there instead."},
}
_FIX = {
    "scheduler": _TEXT,
    "changes": _list(_object(_CHANGE), minItems=1),
    "patch": _list({"type": "object"}, description="The same as a JSON Patch (RFC 6902) of the object."),
    "edits": _list(_object(_EDIT), description="The same as replacements in the file; empty if it cannot be written."),
}
_FINDING = {
    **_RULE,
    "level": _enum(Level, "Its weight: an error refuses the object."),
    "action": {"enum": ["audit", "deny", "warn"], "description": "The configured action of the rule."},
    "fails": {**_TRUTH, "description": "Whether it fails this check."},
    "found": {"type": ["string", "number", "boolean", "null"], "description": "The value, if it is a single one."},
    "why": _TEXT,
    "remedy": _TEXT,
    "message": _TEXT,
    "suppression": {
        "description": "Why the author accepts it.",
        "oneOf": [
            {"type": "null"},
            _object({"kind": _enum(Origin, "`external` is the baseline."), "reason": _TEXT}),
        ],
    },
    "fix": {
        "description": "The smallest edit after which nothing refuses the object.",
        "oneOf": [{"type": "null"}, _object(_FIX)],
    },
    **_PLACE,
}
_COUNTS = ("error", "warning", "audit", "notJudged", "suppressed", "fixable", "unreadable")
_SCHEDULER = {"scheduler": _TEXT, "chosenBy": _TEXT_OR_NULL, "objects": _COUNT}
_UNREADABLE = {"file": _TEXT, "line": _COUNT, "column": _COUNT, "message": _TEXT}


def report_schema() -> dict[str, Any]:
    """Return the schema. Later releases may add fields."""
    fields = {
        "reportVersion": {"const": REPORT_VERSION},
        "tool": _object({"name": {"const": "rollcall"}, "version": _TEXT}),
        "passed": {**_TRUTH, "description": "Whether the check passes: nothing fails and everything can be read."},
        "clean": {**_TRUTH, "description": "Whether there is nothing to do: no finding of any level that counts."},
        "failOn": _list(_enum(FailOn, "What fails the check.")),
        "judged": {**_COUNT, "description": "Objects that have rules."},
        "ignored": {**_COUNT, "description": "Documents of kinds that have no rules."},
        "counts": _object(dict.fromkeys(_COUNTS, _COUNT), description="Suppressed findings are only in `suppressed`."),
        "rules": {
            "type": "object",
            "additionalProperties": _COUNT,
            "description": "The number of findings of each rule.",
        },
        "schedulers": _list(_object(_SCHEDULER), description="The schedulers of the judged objects."),
        "findings": _list(_object(_FINDING)),
        "notJudged": _list(
            _object(
                {
                    **_RULE,
                    "needs": {**_TEXT, "description": "The fact that is unknown."},
                    "remedy": {**_TEXT, "description": "How to supply it; empty if the rule does not say."},
                    **_PLACE,
                }
            )
        ),
        "notes": _list(_object({"message": _TEXT, **_PLACE})),
        "couldRun": _list(
            _object({"schedulers": _list(_TEXT), **_PLACE}),
            description="Refused objects that other schedulers could run as they are written.",
        ),
        "unreadable": _list(_object(_UNREADABLE), description="Files and documents that cannot be read."),
        "ignoredDocuments": _list(
            _object({"file": _TEXT, "line": _COUNT, "kind": _TEXT_OR_NULL}), description="Only with --list-ignored."
        ),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rollcall report",
        "description": "What `rollcall check -o json` prints, and what `POST /check` answers.",
        **_object(fields, optional=("ignoredDocuments",)),
    }
