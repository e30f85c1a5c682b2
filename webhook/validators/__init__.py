"""The rules: small functions that each guard against one behaviour of one scheduler.

`registry` says what a rule is and runs them; the other modules hold the rules that are true of every backend. A
backend's own rules stand in its folder under `webhook.backends`. To add one, write one function: see CONTRIBUTING.md.
"""

from webhook.validators import (
    choice,
    gang_shape,
    owner_agreement,
    owner_choice,
    owner_claims,
    owner_origin,
    owner_shape,
    owners,
    pod_origin,
    podcliqueset,
    shape,
)
from webhook.validators.registry import collect

# Run in place of all others on an object that cannot be read.
SHAPE_RULES = collect(shape, owner_shape)
# Judged before a backend is known.
CHOICE_RULES = collect(choice, owner_choice)
# Judged for every backend, before its own.
GENERAL_RULES = collect(podcliqueset, gang_shape, pod_origin, owners, owner_origin, owner_claims, owner_agreement)
