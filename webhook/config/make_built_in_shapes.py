"""Writes `built_in_shapes.py`, made from the WorkloadShapes in `shapes/`. `scripts/shapes` also formats it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from webhook.config.workloads_section import read_built_in_shapes
from webhook.model.workloads.shapes.path import ShapePath

_HEAD = '''"""The built-in WorkloadShapes as they are read from `shapes/`. Made by `scripts/shapes`; do not edit.

Every process needs them. To read them from YAML takes a tenth of a short command, most of it in pydantic.
"""
# ruff: noqa: E501

from __future__ import annotations

'''


def source() -> str:
    """Return the text of the module, not formatted."""
    classes = {ShapePath.__module__: {"shape_path"}}
    shapes = ", ".join(_expression(shape, classes) for shape in read_built_in_shapes().values())
    imports = "".join(f"from {module} import {', '.join(sorted(names))}\n" for module, names in sorted(classes.items()))
    return f"{_HEAD}{imports}\nSHAPES = ({shapes})\n"


def _expression(value: Any, classes: dict[str, set[str]]) -> str:
    """Return the Python expression of a value. The names that it needs are added to `classes`, by their modules."""
    if isinstance(value, ShapePath):
        return f"shape_path({value.text!r})"
    if isinstance(value, Enum) or is_dataclass(value) or hasattr(value, "_fields"):
        name = type(value).__name__
        classes.setdefault(type(value).__module__, set()).add(name)
        if isinstance(value, Enum):
            return f"{name}.{value.name}"
        parts = ((field, getattr(value, field), default) for field, default in _fields(value))
        given = (f"{field}={_expression(part, classes)}" for field, part, default in parts if part != default)
        return f"{name}({', '.join(given)})"
    if isinstance(value, tuple):
        entries = [_expression(entry, classes) for entry in value]
        return f"({', '.join(entries)}{',' * (len(entries) == 1)})"
    return repr(value)


def _fields(record: Any) -> Iterator[tuple[str, object]]:
    """Yield the fields of a record, each with its default."""
    if is_dataclass(record):
        yield from ((field.name, field.default) for field in fields(record))
    else:
        yield from ((name, record._field_defaults.get(name, MISSING)) for name in record._fields)


if __name__ == "__main__":
    Path(__file__).with_name("built_in_shapes.py").write_text(source(), encoding="utf-8")
