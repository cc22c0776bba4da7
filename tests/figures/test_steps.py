"""Lines against the training step, drawn."""

from io import BytesIO

from repalign.figures.steps import TrainingCurve, plot_steps
from repalign.tables.quantities import Quantity, Reading

RIGID = Quantity("rigid", "Rigid ↓", "lower", "rigid")


def test_long_names_leave_the_axes_their_width_and_lose_the_folder_that_all_share() -> None:
    folder = "/home/somebody/a/long/way/to/the/stores/of/this/study"
    labels = [f"{folder}/a-*.h5::block-{number} → {folder}/b-*.h5::final" for number in range(3)]
    points = {step: Reading(0.1 * step, None, None) for step in (0, 10, 100)}
    figure = plot_steps([TrainingCurve(label, points) for label in labels], RIGID, "in-sample")
    figure.savefig(BytesIO(), format="svg")  # places everything
    (axes,) = figure.axes
    assert axes.get_position().width > 0.8
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [f"a-*::block-{number} → b-*::final" for number in range(3)]
    other = plot_steps([TrainingCurve("x/a.h5::final → y/a.h5::final", points)], RIGID, "in-sample")
    assert other.legends[0].get_texts()[0].get_text() == "x/a::final → y/a::final"
