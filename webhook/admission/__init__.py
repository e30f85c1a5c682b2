"""The decision about one AdmissionReview, pure: `validate` and `mutate`. Server and command line call nothing else.

`decision` is the whole of it on one screen, `opted_in` its part about workloads other than PodCliqueSets, `opinion`
what one scheduler makes of a PodCliqueSet, and `live_reads` which facts must be read before the decision.
"""

from webhook.admission.decision import mutate, validate

__all__ = ["mutate", "validate"]
