"""Rules about gang objects that somebody applied, and not about those that a scheduler's own controllers make: what is
said of these nobody hears, and refused they would be made again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

from webhook.model.findings import Action
from webhook.model.stored_object import Judged, StoredObject
from webhook.validators.registry import Context, Example, Results, Rule, rule

Check = Callable[[StoredObject, Context[Any]], Results]


class Declaring(Protocol):
    """`rule`, for one kind."""

    def __call__(
        self, id: str, *, passes: Example, fails: Example, default: Action = Action.DENY
    ) -> Callable[[Check], Rule]:
        """Declare the decorated function as the rule `id`."""


def rules_about(kind: Judged, made_by_scheduler: Callable[[StoredObject], bool]) -> Declaring:
    """What declares a rule about objects of `kind` that are not `made_by_scheduler`."""

    def declaring(
        id: str, *, passes: Example, fails: Example, default: Action = Action.DENY
    ) -> Callable[[Check], Rule]:
        def declare(check: Check) -> Rule:
            @wraps(check)
            def applied(found: StoredObject, context: Context[Any]) -> Results:
                if not made_by_scheduler(found):
                    yield from check(found, context)

            return rule(id, passes=passes, fails=fails, default=default, kinds=(kind,))(applied)

        return declare

    return declaring
