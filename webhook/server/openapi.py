"""What /docs says about the endpoints whose bodies have no model."""

from __future__ import annotations

from typing import Any

_REVIEW_REQUEST = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "7b0a3c6e-2f0e-4a0d-9d8e-3a5f0c1b2d4e",
        "kind": {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
        "name": "demo",
        "namespace": "default",
        "operation": "CREATE",
        "object": {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {
                "replicas": 1,
                "template": {
                    "cliques": [
                        {
                            "name": "worker",
                            "spec": {
                                "replicas": 2,
                                "podSpec": {"containers": [{"name": "main", "image": "registry.example.com/main:1.0"}]},
                            },
                        }
                    ]
                },
            },
        },
        "oldObject": None,
    },
}
_REVIEW_RESPONSE = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {"uid": "7b0a3c6e-2f0e-4a0d-9d8e-3a5f0c1b2d4e", "allowed": True},
}
_TIMEOUT = {
    "name": "timeout",
    "in": "query",
    "description": "How long the caller waits, as a Go duration.",
    "schema": {"type": "string", "default": "10s"},
}
_ANSWERS = {
    "200": {
        "description": "The verdict, in the request's apiVersion and with its uid.",
        "content": {"application/json": {"example": _REVIEW_RESPONSE}},
    },
    "400": {"description": "The body is not an AdmissionReview that can be answered; one line says why."},
    "413": {"description": "The body is over 7 MiB, or has too many values."},
    "500": {"description": "An error in the server; never a verdict."},
    "503": {"description": "Too many calls at once."},
    "504": {"description": "The body or the answer was not complete before the caller's timeout."},
}


def _admission(summary: str) -> dict[str, Any]:
    return {
        "post": {
            "tags": ["admission"],
            "summary": summary,
            "parameters": [_TIMEOUT],
            "requestBody": {"required": True, "content": {"application/json": {"example": _REVIEW_REQUEST}}},
            "responses": _ANSWERS,
        }
    }


ADMISSION_PATHS = {
    "/validate": _admission("Judge an object before it is stored"),
    "/mutate": _admission("Prepare an object before it is stored"),
}

_SCHEDULER = {
    "name": "scheduler",
    "in": "query",
    "description": "Judge as if this scheduler were chosen, whatever the manifests say.",
    "schema": {"type": "string"},
}
_CONFIGURATION = {
    "name": "configuration",
    "in": "query",
    "description": "Judge with the server's configuration, or with every installed scheduler and its defaults.",
    "schema": {"type": "string", "enum": ["server", "built-in"], "default": "server"},
}
_MANIFESTS = {
    "required": True,
    "content": {"application/yaml": {"schema": {"type": "string"}}, "application/json": {"schema": {}}},
}
_UNANSWERED = {
    "400": {"description": "The manifests cannot be read, or the scheduler does not exist."},
    "403": {"description": "It is disabled, as by default in a cluster; serving.check enables it."},
    "413": {"description": "The body is over 1 MiB."},
    "503": {"description": "Too many checks at once."},
    "504": {"description": "The body or the answer was not complete in time."},
}

CHECK: dict[str, Any] = {
    "parameters": [
        _SCHEDULER,
        _CONFIGURATION,
        {
            "name": "strict",
            "in": "query",
            "description": "Fail if a rule could not be judged.",
            "schema": {"type": "boolean", "default": False},
        },
        {
            "name": "fixes",
            "in": "query",
            "description": "Also search the smallest edit of each refused PodCliqueSet, for the first 50.",
            "schema": {"type": "boolean", "default": False},
        },
    ],
    "requestBody": _MANIFESTS,
    "responses": {
        "200": {"description": "Nothing is refused."},
        "422": {"description": "Something is refused."},
        **_UNANSWERED,
    },
}

CAPABILITIES: dict[str, Any] = {
    "parameters": [_CONFIGURATION],
    "responses": {"200": {"description": "For each enabled scheduler, every capability: yes, no, depends, unstated."}},
}

EXPLAIN: dict[str, Any] = {
    "parameters": [
        _SCHEDULER,
        _CONFIGURATION,
        {
            "name": "pictures",
            "in": "query",
            "description": "Also draw the gangs of each workload, as SVG, Mermaid and text.",
            "schema": {"type": "boolean", "default": False},
        },
    ],
    "requestBody": _MANIFESTS,
    "responses": {
        "200": {"description": "For each workload, the verdict of every enabled scheduler, and what would help."},
        **_UNANSWERED,
    },
}
