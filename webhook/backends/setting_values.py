"""Values of settings that several backends have in their part of the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from webhook.model.naming import is_subdomain

# Whether topology objects that are made from one binding are only compared, or also written.
TopologyObjects = Literal["compare", "write"]


def unquoted_off(value: object) -> object:
    """Return the word `off` for False: YAML 1.1 reads a plain `off` as false, and so do tools that rewrite files."""
    return "off" if value is False else value


def _binding_name(name: str) -> str:
    if not is_subdomain(name):
        raise PydanticCustomError("binding_name", "is not a valid name of a ClusterTopologyBinding")
    return name


# The name of a ClusterTopologyBinding.
BindingName = Annotated[str, AfterValidator(_binding_name)]
