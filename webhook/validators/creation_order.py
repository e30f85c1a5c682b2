"""Whether what an object refers to must be there before it: a namespace says so whose objects are created in order.

Without that an absence is only warned about, because what is referred to may follow a moment later.
"""

from __future__ import annotations

from typing import Any

from webhook.model.findings import Action
from webhook.validators.registry import Context

CREATION_ORDER_LABEL = "rollcall.dev/creation-order"
STRICT = "strict"


def least_action(context: Context[Any]) -> Action:
    """The least that is done about something that is not there yet."""
    said = context.facts.namespace_label(context.namespace, CREATION_ORDER_LABEL)
    return Action.DENY if said == STRICT else Action.OFF
