import pytest

from repalign.exceptions import InputError
from repalign.tables.matrix import arranged, make_matrix
from repalign.tables.quantities import quantities_in, reading_across_targets
from repalign.tables.records import as_csv
from repalign.tables.render import as_text


def record(source: str, target: str, error: float | None, *, split="held-out", name="rigid"):
    told = {"map": name, "split": split, "error": error, "ci_low": None, "ci_high": None}
    told |= {"n_rows": 60, "diameter": 3.0, "rms_radius": 3.0}
    for side, text in (("source", source), ("target", target)):
        model, _, view = text.partition("::")
        told |= {side: model, f"{side}_view": view, f"{side}_layer": None}
    return told


def measured(source: str, target: str, value: float):
    ends = {"ci_low": None, "ci_high": None}
    told = {"measure": "linear-cka", "value": value, "better": "↑", "map": None, **ends}
    return record(source, target, None) | told


PAIRS = [
    record("A::block-1", "B::block-1", 0.1),
    record("A::block-1", "B::block-2", 0.25),
    record("A::block-2", "B::block-1", 0.3),
]


def test_sources_stand_down_and_targets_across() -> None:
    matrix = make_matrix(PAIRS)
    assert [row.name for row in matrix.rows] == ["A::block-1", "A::block-2"]
    assert [column.name for column in matrix.columns] == ["B::block-1", "B::block-2"]
    assert as_csv(matrix.to_records()).splitlines() == [
        '"rigid error / rms radius, held-out, 60 rows, lower is closer; source \\ target",'
        "B::block-1,B::block-2",
        "A::block-1,0.1,0.25",
        "A::block-2,0.3,",
    ]
    assert "blank: 1 of 4 pairs" in " ".join(matrix.notes)


def test_layers_stand_in_their_order_where_it_is_known() -> None:
    late = record("A::block-10", "B", 0.1) | {"source_layer": 9}
    early = record("A::block-2", "B", 0.2) | {"source_layer": 1}
    assert [row.view for row in make_matrix([late, early]).rows] == ["block-2", "block-10"]
    unknown = [each | {"source_layer": None} for each in (late, early)]
    assert [row.view for row in make_matrix(unknown).rows] == ["block-10", "block-2"]


def test_the_held_out_value_is_taken_where_there_is_one() -> None:
    both = [record("a", "b", 0.1, split="in-sample"), record("a", "b", 0.2)]
    assert make_matrix(both).values == {(0, 0): 0.2}
    assert make_matrix(both[:1]).split == "in-sample"


def test_both_directions_have_their_own_cells_and_the_diagonal_is_blank() -> None:
    matrix = make_matrix([record("a", "b", 0.1), record("b", "a", 0.2)])
    assert matrix.values == {(0, 1): 0.1, (1, 0): 0.2}
    assert "blank: 2 of 4" in matrix.notes[0]


def test_one_of_several_is_chosen() -> None:
    several = [*PAIRS, record("A::block-1", "B::block-1", 0.05, name="linear")]
    assert make_matrix(several).quantity.name == "rigid"
    assert make_matrix(several, "linear").values == {(0, 0): 0.05}
    assert "linear (--show)" in make_matrix(several).notes[-1]
    with pytest.raises(InputError, match=r"'cka' .* rigid"):
        make_matrix(several, "cka")


def test_a_measure_is_a_quantity_too() -> None:
    matrix = make_matrix([measured("a", "b", 0.9), record("a", "b", 0.1)], "linear-cka")
    assert matrix.values == {(0, 1): 0.9, (1, 0): 0.9}  # the same in both directions
    assert matrix.caption == "linear-cka, all 60 rows, higher is closer"


def test_people_see_a_table_a_model_with_blocks() -> None:
    lines = as_text(list(make_matrix(PAIRS).tables())).splitlines()
    assert lines[:-1] == [
        "Rigid error / rms radius ↓ held-out, 60 rows, from rows to columns of B",
        "           block-1  block-2  closest",
        "from A",
        "  block-1     .100     .250  block-1",
        "  block-2     .300",
        "",
    ]
    assert lines[-1].startswith("blank: 1 of 4 pairs")


def test_targets_are_compared_over_their_rms_radius() -> None:
    # by the diameter block-1 of B is closer to block-1 of A, by the radius block-2 is
    radii = [0.75, 2.5, 1.8]
    pairs = [pair | {"rms_radius": radius} for pair, radius in zip(PAIRS, radii, strict=True)]
    matrix = make_matrix(pairs)
    assert matrix.values == pytest.approx({(0, 0): 0.4, (0, 1): 0.3, (1, 0): 0.5})
    assert matrix.closest() == {(0, "B"): 1}
    assert make_matrix(PAIRS).closest() == {(0, "B"): 0}
    assert arranged(matrix, [1, 0], [1, 0]).closest() == {(1, "B"): 0}
    lines = as_text(list(matrix.tables())).splitlines()
    assert lines[3] == "  block-1     .400     .300  block-2"
    higher = [measured("A::1", "B::1", 0.9), measured("A::1", "B::2", 0.8)]
    assert make_matrix(higher).closest()[0, "B"] == 1  # rows: A::1, B::1, B::2


def test_the_interval_of_an_error_is_in_the_unit_of_its_value() -> None:
    (quantity,) = quantities_in(PAIRS[:1])
    pair = PAIRS[0] | {"ci_low": 0.08, "ci_high": 0.12, "rms_radius": 1.0}
    assert reading_across_targets(pair, quantity) == pytest.approx((0.3, 0.24, 0.36))
    assert reading_across_targets(pair | {"rms_radius": 0.0}, quantity) == (None, None, None)


def test_a_table_leaves_out_models_that_were_not_compared_with_its_columns() -> None:
    pairs = [record(f"A::{i}", f"B::{j}", 0.1) for i in "12" for j in "12"]
    pairs += [record(f"B::{i}", f"C::{j}", 0.1) for i in "12" for j in "12"]
    first, second = make_matrix(pairs).tables()
    assert [row.label for row in first.lines] == ["from A", "  1", "  2"]
    assert [row.label for row in second.lines] == ["from B", "  1", "  2"]


def test_models_of_one_view_share_a_table() -> None:
    pairs = [record("a", "b", 0.1), record("a", "c", None), record("b", "c", 0.3)]
    lines = as_text(list(make_matrix(pairs).tables())).splitlines()
    assert lines[:4] == [
        "Rigid error / rms radius ↓ held-out, 60 rows, from rows to columns",
        "      b     c",
        "a  .100   n/a",
        "b        .300",
    ]
    assert lines[-2].startswith("blank: 1 of 4 pairs")
    assert lines[-1] == "n/a: 1 undefined"
