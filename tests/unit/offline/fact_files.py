"""Facts from the text of a file."""

from __future__ import annotations

from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.offline.fact_files import facts_from
from webhook.offline.manifests import read_text


def facts(text: str, known: ClusterFacts = NO_FACTS) -> ClusterFacts:
    """The facts in a file facts.yaml."""
    return facts_from(read_text(text, "facts.yaml"), known)
