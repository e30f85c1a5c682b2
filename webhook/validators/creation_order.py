"""Whether the objects that an object refers to must exist before it. A label of the namespace demands this if objects
are created in order.

Otherwise a missing object only causes a warning, because it may be created a moment later.
"""

from __future__ import annotations

from typing import Any

from webhook.model.findings import Action
from webhook.validators.registry import Context

CREATION_ORDER_LABEL = "rollcall.dev/creation-order"
STRICT = "strict"


def least_action(context: Context[Any]) -> Action:
    """The weakest action for an object that does not exist yet."""
    said = context.facts.namespace_label(context.namespace, CREATION_ORDER_LABEL)
    return Action.DENY if said == STRICT else Action.OFF
