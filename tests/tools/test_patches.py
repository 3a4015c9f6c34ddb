"""Images side by side, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import visualize

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def figure():
    pyplot.switch_backend("agg")
    yield pyplot.figure()
    pyplot.close("all")


def shown():
    return np.asarray(pyplot.gca().images[-1].get_array())


def test_images_lie_in_rows_with_gaps():
    patches = np.arange(3 * 4, dtype=float).reshape(3, 2, 2)
    picture = visualize.PatchVisualizer(gap=1).ShowMultiple(patches, bg_func=lambda p: -1)
    assert picture.shape == (5, 5) and (picture[2] == -1).all() and (picture[:, 2] == -1).all()
    np.testing.assert_array_equal(picture[:2, 3:], patches[1])
    np.testing.assert_array_equal(picture[3:, :2], patches[2])
    np.testing.assert_array_equal(shown(), picture)
    assert visualize.PatchVisualizer(2).ShowMultiple(patches, ncols=3).shape == (2, 10)


def test_flat_and_coloured_images():
    visualizer = visualize.PatchVisualizer()
    assert visualizer.ShowMultiple(np.zeros((5, 27))).shape == (7, 11, 3)
    assert visualizer.ShowSingle(np.zeros(16)).shape == (4, 4)
    assert visualizer.ShowChannels(np.zeros((4, 5, 6))).shape == (9, 17)
    picture = visualizer.ShowImages(np.array([[[5, 7], [9, 5]]]))
    np.testing.assert_allclose(picture, [[0, 0.5], [1, 0]])


def test_channels_first_are_moved_last():
    images = np.random.RandomState(0).rand(4, 3, 5, 6)
    assert visualize.ChannelLast(images).shape == (4, 5, 6, 3)
    np.testing.assert_array_equal(visualize.ChannelFirst(visualize.ChannelLast(images)), images)
    assert visualize.NCHW.ShowMultiple(images) is None
    assert shown().shape == (11, 13, 3)
    visualize.NHWC.ShowMultiple(visualize.ChannelLast(images))
    visualize.NCHW.ShowSingle(images[0])
    assert shown().shape == (5, 6, 3)
    visualize.NCHW.ShowChannels(images[0])
    assert shown().shape == (11, 13)
    visualize.NCHW.ShowSingle(images[0, 0])


@pytest.mark.parametrize("call", [
    lambda v: v.ShowSingle(np.zeros(7)), lambda v: v.ShowSingle(np.zeros((2, 2, 4))),
    lambda v: v.ShowMultiple(np.zeros((2, 2, 2, 5))), lambda v: v.ShowChannels(np.zeros((2, 2))),
    lambda v: v.ShowMultiple(np.zeros((0, 2, 2))),
])
def test_other_shapes_are_refused(call):
    with pytest.raises(ValueError, match=r"not|no square"):
        call(visualize.PatchVisualizer())
