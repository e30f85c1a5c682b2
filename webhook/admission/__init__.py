"""Decide one AdmissionReview with `validate` and `mutate`, without I/O. The server and the commands call only these
two.

`decision` is the entry point. `workload` is the path of all workloads; `pod_clique_set` and `opted_in` say what differs
between them. `pod` decides about pods, `gang_object` about gang objects of other programs. `opinion` says how one
scheduler judges a workload. `live_reads` says which facts must be read before the decision.
"""

from webhook.admission.decision import mutate, validate

__all__ = ["mutate", "validate"]
