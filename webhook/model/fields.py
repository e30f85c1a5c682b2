"""FieldPath: the place of a finding in an object, as Kubernetes writes it.

    >>> str(FieldPath(("spec", "template", "cliques", Item(1, "worker"), "annotations", "grove.io/mnnvl-group")))
    'spec.template.cliques[1].annotations[grove.io/mnnvl-group]'

A path also has an `anchor`, which has names of list items instead of indexes. Two versions of an object are compared by
anchors, so reordering the cliques makes no fault new.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


# Nothing changes one. It is not frozen, because rules make very many.
@dataclass(slots=True, unsafe_hash=True)
class Item:
    """An item of a list: its index, and the name that identifies it, if it has one."""

    index: int
    name: str | None = None


Part = str | Item

# A key that reads well after a dot. Other keys (mostly annotation keys) go into brackets.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
# A valid key has at most 253 characters, a slash and 63 more. A path in a message must not hide the rest of the
# message.
LONGEST_KEY = 317


class FieldPath(tuple[Part, ...]):
    """A path from the root of an object: map keys and list items. A tuple, because rules make very many."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its map keys and list items. Unlike the path, those of the root are false."""
        return tuple(self)

    def __truediv__(self, part: Part) -> FieldPath:
        """The path one step further down."""
        return FieldPath((*self, part))

    def __bool__(self) -> bool:
        """The root is a place, too."""
        return True

    def __repr__(self) -> str:
        return f"FieldPath({tuple(self)!r})"

    def __str__(self) -> str:
        return self._render(by_name=False)

    @property
    def anchor(self) -> str:
        """The path with list items by name instead of index; `[]` for an item without a name."""
        return self._render(by_name=True)

    def _render(self, *, by_name: bool) -> str:
        rendered = ""
        for part in self:
            if isinstance(part, Item):
                rendered += f"[{part.name or '' if by_name else part.index}]"
            elif len(part) > LONGEST_KEY and not by_name:
                rendered += f"[{part[: LONGEST_KEY - 3]}...]"
            elif _PLAIN.match(part):
                rendered += f".{part}" if rendered else part
            else:
                rendered += f"[{part}]"
        return rendered


ROOT = FieldPath()
METADATA = FieldPath(("metadata",))
SPEC = FieldPath(("spec",))
LABELS = METADATA / "labels"
ANNOTATIONS = METADATA / "annotations"
