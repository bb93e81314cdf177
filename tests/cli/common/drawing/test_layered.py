"""The layered layout: what it promises of any graph."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.common.drawing.layered import Edge, Layout, Node
from tests.support.budget import examples


def lay_out(edges: list[tuple[str, str]]) -> tuple[dict[str, Node], list[Edge]]:
    names = dict.fromkeys(name for edge in edges for name in edge)
    nodes = {name: Node(name, 20 + 10 * len(name), 20) for name in names}
    lines = [Edge(a, b, 30, 12) for a, b in edges]
    Layout(nodes.values(), lines)
    return nodes, lines


def test_a_chain_is_a_straight_line_downwards() -> None:
    nodes, lines = lay_out([("a", "b"), ("b", "c")])
    assert nodes["a"].y < nodes["b"].y < nodes["c"].y
    assert abs(nodes["a"].x - nodes["c"].x) < 1
    assert lines[0].points[0][1] < lines[0].points[-1][1]


def test_an_edge_back_is_drawn_upwards() -> None:
    nodes, lines = lay_out([("a", "b"), ("b", "a")])
    assert nodes["a"].y < nodes["b"].y
    assert lines[1].points[0][1] > lines[1].points[-1][1]


def test_lines_do_not_cross_where_they_need_not() -> None:
    nodes, _ = lay_out([("a", "d"), ("b", "c"), ("a2", "d"), ("r", "a"), ("r", "a2"), ("r", "b")])
    assert (nodes["a"].x < nodes["b"].x) == (nodes["d"].x < nodes["c"].x)


@settings(max_examples=examples(60, 20), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")),
        min_size=1,
        max_size=24,
        unique=True,
    )
)
def test_no_two_boxes_or_labels_overlap(edges: list[tuple[str, str]]) -> None:
    nodes, lines = lay_out(edges)
    spots = [(n.x, n.y, n.width, n.height) for n in nodes.values()]
    spots += [(*e.label_at, e.label_width, e.label_height) for e in lines if e.source != e.target]
    for index, (x, y, w, h) in enumerate(spots):
        for x2, y2, w2, h2 in spots[index + 1 :]:
            assert abs(x - x2) >= (w + w2) / 2 - 0.01 or abs(y - y2) >= (h + h2) / 2 - 0.01
