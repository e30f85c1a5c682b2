"""What is shown instead of the number that Grove's operator will choose."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.offline.translation import mask_epochs

ONE, OTHER = "1" * 19, "2" * 19
CASES: dict[str, tuple[Any, Any, Any]] = {
    "the epoch in a name": (f"demo-0-{ONE}-decode-1", f"demo-0-{OTHER}-decode-1", "demo-0-<epoch>-decode-1"),
    "a name that is cut within the epoch": ("demo-0-1111-4f2a", "demo-0-2222-9c0b", "demo-0-<epoch>-<digest>"),
    "a digest": ("koord-scheduler/4f2a", "koord-scheduler/9c0b", "koord-scheduler/<digest>"),
    "texts of another form": ("a/b+c", "a/bc", "<digest>"),
    "equal texts and numbers": ({"a": ["x", 1, None]}, {"a": ["x", 1, None]}, {"a": ["x", 1, None]}),
    "a key": ({f"x/{ONE}": True}, {f"x/{OTHER}": True}, {"x/<epoch>": True}),
}


@pytest.mark.parametrize(("first", "second", "shown"), CASES.values(), ids=CASES)
def test_what_depends_on_the_epoch_is_a_placeholder(first: Any, second: Any, shown: Any) -> None:
    assert mask_epochs(first, second) == shown
