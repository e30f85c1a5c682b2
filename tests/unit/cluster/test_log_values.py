"""Names from callers are cut in the log, and cannot control a terminal that shows it."""

from __future__ import annotations

from webhook.cluster.logs import MAX_VALUE_CHARACTERS, cut_values


def test_a_long_uid_is_cut() -> None:
    line = cut_values(None, "info", {"event": "denied", "uid": "u" * 5_000_000})
    assert line == {"event": "denied", "uid": "u" * (MAX_VALUE_CHARACTERS - 3) + "..."}


def test_a_value_that_fits_is_unchanged() -> None:
    line = {"event": "denied", "name": "n" * 253, "rules": ["grove/shape"], "tries": 3}
    assert cut_values(None, "info", dict(line)) == line


def test_a_name_cannot_change_the_text_direction_of_a_line() -> None:
    assert cut_values(None, "info", {"name": "a\u202eb\x1b[2Jc"}) == {"name": "a\ufffdb\ufffd[2Jc"}
