"""Decide one AdmissionReview with `validate` and `mutate`, without I/O. The server and the commands call only these
two.
"""

from webhook.admission.decision import mutate, validate

__all__ = ["mutate", "validate"]
