"""The picture of how a gang fits, as text and as SVG."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from tests.unit.offline.fit_entries import GROWS, NEVER, ROOM, SHORT, rack
from webhook.offline.fit_report import FitEntry
from webhook.offline.pictures import drawing, fit_picture, tree_lines


def lines(entry: FitEntry) -> list[str]:
    return list(tree_lines(fit_picture(entry)))


def test_a_gang_that_has_room_is_laid_into_its_rack() -> None:
    assert lines(ROOM) == [
        "gang train: fits an empty cluster, starts with 2 pods, now room, on rack r7",
        "├── rack r7: 9 nodes, 72 of 72 nvidia.com/gpu free, 576 of 576 cpu free",
        "│   └── worker: 2 pods on 2 nodes",
        "└── rack r6: 4 nodes, 16 of 32 nvidia.com/gpu free, 128 of 256 cpu free",
    ]


def test_a_gang_that_never_fits_marks_the_rack_that_comes_nearest() -> None:
    assert lines(NEVER) == [
        "gang train: never fits on these nodes, starts with 12 pods",
        "├── rack r7: 9 nodes, 16 of 72 nvidia.com/gpu free, 128 of 576 cpu free, short of 24 nvidia.com/gpu",
        "└── rack r6: 4 nodes, 32 of 32 nvidia.com/gpu free, 256 of 256 cpu free",
    ]
    assert [one.cannot for one in (fit_picture(NEVER), *fit_picture(NEVER).below)] == [True, True, False]


def test_a_gang_that_is_short_now_is_laid_in_as_it_fits_an_empty_cluster() -> None:
    assert lines(SHORT)[:3] == [
        "gang train: fits an empty cluster, starts with 9 pods, now short by 24 nvidia.com/gpu on rack r7",
        "├── rack r7: 9 nodes, 48 of 72 nvidia.com/gpu free, 384 of 576 cpu free, short of 24 nvidia.com/gpu",
        "│   └── worker: 9 pods on 9 nodes",
    ]


def test_without_pods_on_nodes_the_boxes_have_totals() -> None:
    assert lines(GROWS)[1] == "└── rack r6: 4 nodes, 32 nvidia.com/gpu, 256 cpu"


def test_of_very_many_racks_the_one_with_the_gang_is_drawn() -> None:
    many = tuple(rack(f"x{index}", index + 1, index) for index in range(60))
    found = lines(replace(ROOM, domains=(*many, rack("r7", 2, 16))))
    assert found[1].startswith("├── rack r7: 2 nodes")
    assert found[2].strip("│ └─") == "worker: 2 pods on 2 nodes"
    assert found[-1] == "└── 41 others"


def test_the_parsedis_xml_with_a_box_for_each_rack() -> None:
    drawn = drawing([fit_picture(ROOM), fit_picture(NEVER)])
    parsed = ElementTree.fromstring(drawn)  # noqa: S314 - it is our own
    titles = [text.text for text in parsed.iter("{http://www.w3.org/2000/svg}text")]
    assert [title for title in titles if title and title.startswith("rack ")] == [
        "rack r7",
        "rack r6",
        "rack r7",
        "rack r6",
    ]
    assert drawn.count('class="part cannot"') == 1
