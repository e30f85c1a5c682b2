"""Decide one AdmissionReview with `validate` and `mutate`, without I/O. The server and the commands call only these
two.

`decision` is the entry point. `opted_in` decides about workloads other than PodCliqueSets. `opinion` says how one
scheduler judges a PodCliqueSet. `live_reads` says which facts must be read before the decision.
"""

from webhook.admission.decision import mutate, validate

__all__ = ["mutate", "validate"]
