"""The configuration of a `kai-scheduler` profile."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from webhook.backends.base import BackendSettings
from webhook.backends.kai.keys import LABEL_NODE_POOL, LABEL_QUEUE
from webhook.model.naming import is_key, is_label_value, is_subdomain
from webhook.model.record import QUEUE_WORD
from webhook.validators.registry import Context


def is_queue_name(name: str) -> bool:
    """Whether this can be the name of a Queue and the value of a label."""
    return is_subdomain(name) and is_label_value(name)


def _queue(name: str) -> str:
    if not is_queue_name(name):
        raise PydanticCustomError("queue_name", "is not a valid name of a Queue")
    return name


def _label_key(key: str) -> str:
    if not is_key(key):
        raise PydanticCustomError("label_key", "is not a valid label key")
    return key


def _queue_key(key: str) -> str:
    if QUEUE_WORD not in key.rpartition("/")[2]:
        raise PydanticCustomError(
            "queue_key", "must have 'queue' in its name, because queue keys are recognised by this word"
        )
    return key


LabelKey = Annotated[str, AfterValidator(_label_key)]


class KaiSettings(BackendSettings):
    """defaultQueue is the queue of a PodCliqueSet that names none. If defaultQueue is not set, such a set is refused.
    Set the two keys if KAI's installation does not use the default keys.
    """

    defaultQueue: Annotated[str, AfterValidator(_queue)] | None = None
    queueLabelKey: Annotated[LabelKey, AfterValidator(_queue_key)] = LABEL_QUEUE
    nodePoolLabelKey: LabelKey = LABEL_NODE_POOL


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[KaiSettings]
