"""ImageInput: what comes out is what the record says, pixel by pixel; random changes keep shapes and ranges."""

import io

import numpy as np
import pytest

from caffe2.proto import caffe2_legacy_pb2, caffe2_pb2
from caffe2.python import brew, core, model_helper, workspace
from netgrad.data import images
from netgrad.persist.databases import create_db
from netgrad.runtime.errors import NetError

Image = pytest.importorskip("PIL.Image")
TYPES = caffe2_pb2.TensorProto
RNG = np.random.default_rng(7)


def picture(height, width, channels=3):
    return RNG.integers(0, 256, (height, width, channels), dtype=np.uint8)


def png(pixels):
    """A file of blue, green, red pixels."""
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, ::-1] if pixels.shape[2] == 3 else pixels[:, :, 0]).save(file, "PNG")
    return file.getvalue()


def tensors(image, label, *more):
    record = caffe2_pb2.TensorProtos()
    first = record.protos.add()
    if isinstance(image, bytes):
        first.data_type = TYPES.STRING
        first.string_data.append(image)
    else:
        first.data_type = TYPES.BYTE
        first.dims.extend(image.shape)
        first.byte_data = image.tobytes()
    for values in (label, *more):
        proto = record.protos.add()
        values = np.atleast_1d(values)
        if values.dtype.kind == "f":
            proto.data_type = TYPES.FLOAT
            proto.float_data.extend(values.tolist())
        else:
            proto.data_type = TYPES.INT32
            proto.int32_data.extend(values.tolist())
    return record.SerializeToString()


def database(path, records):
    with create_db("minidb", str(path), 2) as db:
        for k, record in enumerate(records):
            db.put(f"{k:04}", record)
    return {"db": str(path), "db_type": "minidb"}


def run(path, records, outputs=2, **arguments):
    arguments = {"batch_size": len(records), "is_test": 1, **arguments}
    workspace.ResetWorkspace()
    net = core.Net("images")
    blobs = net.ImageInput([], [f"output_{k}" for k in range(outputs)], **database(path, records), **arguments)
    workspace.RunNetOnce(net)
    return [workspace.FetchBlob(blob) for blob in blobs]


def middle(pixels, crop):
    top, left = ((size - crop) // 2 for size in pixels.shape[:2])
    return pixels[top:top + crop, left:left + crop]


@pytest.mark.parametrize("encoded", [True, False])
def test_pixels_labels_and_normalization(tmp_path, encoded):
    pictures = [picture(9, 12), picture(8, 8), picture(15, 7)]
    mean, std = [1.0, 2.0, 3.0], [2.0, 4.0, 0.5]
    data, label = run(tmp_path / "db", [tensors(png(p) if encoded else p, k) for k, p in enumerate(pictures)],
                      crop=7, minsize=7, mean_per_channel=mean, std_per_channel=std)
    assert data.dtype == np.float32 and label.dtype == np.int32 and label.tolist() == [0, 1, 2]
    for found, pixels in zip(data, pictures):
        np.testing.assert_allclose(found, (middle(pixels, 7).astype(np.float32) - mean) / std, rtol=1e-6)


def test_boxes_cut_out_and_are_passed_over_where_they_do_not_fit(tmp_path):
    pixels = picture(12, 14)
    records = [tensors(pixels, 0, *box) for box in ([np.array([2, 3, 6, 8])], [], [np.array([9, 9, 9, 9])])]
    data, _ = run(tmp_path / "db", records, crop=5, minsize=5, bounding_ymin=1, bounding_xmin=0, bounding_height=6,
                  bounding_width=6)
    for found, part in zip(data, [pixels[2:8, 3:11], pixels[1:7, 0:6], pixels]):
        assert np.array_equal(found, middle(part, 5))


def test_label_types(tmp_path):
    image = picture(4, 4)

    def labels(label_type, *tensors_):
        return run(tmp_path / "db", [tensors(image, *tensors_)], crop=4, minsize=4, label_type=label_type,
                   num_labels=4)[1].tolist()

    assert labels(1, np.array([0, 3])) == [[1, 0, 0, 1]]
    assert labels(2, np.array([7, 8, 9, 1])) == [[7, 8, 9, 1]]
    assert labels(3, np.array([1, 2]), np.array([0.5, 2.0])) == [[0, 0.5, 2, 0]]
    with pytest.raises(NetError, match="num_labels is 4"):
        labels(1, np.array([4]))
    with pytest.raises(NetError, match="num_labels is 4"):
        labels(2, np.array([1, 2]))
    with pytest.raises(NetError, match="label_type"):
        labels(0, np.array([1, 2]))


def test_additional_outputs(tmp_path):
    image = picture(4, 4)
    records = [tensors(image, 1, 2.5, np.array([1, 2, 3])), tensors(image, 2, 3.5, np.array([4, 5, 6]))]
    found = run(tmp_path / "db", records, outputs=4, crop=4, minsize=4, output_sizes=[1, 3])
    assert found[2].tolist() == [2.5, 3.5] and found[3].tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("encoded", [True, False])
def test_records_of_caffe(tmp_path, encoded):
    pixels = picture(6, 5)
    datum = caffe2_legacy_pb2.CaffeDatum(channels=3, height=6, width=5, label=9, encoded=encoded)
    datum.data = png(pixels) if encoded else pixels.transpose(2, 0, 1).tobytes()
    data, label = run(tmp_path / "db", [datum.SerializeToString()], crop=5, minsize=5, use_caffe_datum=1)
    assert np.array_equal(data[0], middle(pixels, 5)) and label.tolist() == [9] and label.dtype == np.int32


def test_brew_gives_nchw_and_test_and_transform_forms(tmp_path):
    pixels = picture(6, 6)
    where = database(tmp_path / "db", [tensors(png(pixels), 3)])
    found = {}
    for form in ({}, {"use_gpu_transform": True}, {"use_gpu_transform": True, "output_type": "float16"},
                 {"order": "NHWC"}):
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper("m")
        reader = model.CreateDB("reader", **where)
        brew.image_input(model, [reader], ["data", "label"], batch_size=2, crop=4, scale=4, mirror=1, is_test=1,
                         mean=128., std=128., **form)
        workspace.RunNetOnce(model.param_init_net)
        workspace.RunNetOnce(model.net)
        found[str(form)] = workspace.FetchBlob("data")
    plain, moved, half, nhwc = found.values()
    assert plain.shape == (2, 3, 4, 4) and half.dtype == np.float16
    assert np.array_equal(plain, moved) and np.array_equal(plain, nhwc.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(half, plain, rtol=1e-3)


def test_epochs_go_round_and_are_read_ahead(tmp_path):
    where = database(tmp_path / "db", [tensors(picture(4, 4), k) for k in range(5)])
    net = core.Net("images")
    _, label = net.ImageInput([], 2, batch_size=2, crop=4, minsize=4, is_test=1, **where)
    workspace.CreateNet(net, overwrite=True)
    seen = []
    for _ in range(5):
        workspace.RunNet(net)
        seen += workspace.FetchBlob(label).tolist()
    assert seen == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_training_is_random_seeded_and_within_the_image(tmp_path):
    ramp = np.broadcast_to(np.arange(40, dtype=np.uint8)[:, None, None], (40, 40, 3)).copy()
    ramp[:, :, 1] = np.arange(40)
    records = [tensors(ramp, 0)] * 16

    def crops(seed, **more):
        with core.DeviceScope(core.DeviceOption(0, random_seed=seed)):
            return run(tmp_path / "db", records, crop=10, minsize=10, is_test=0, **more)[0]

    data = crops(1)
    assert len({image.tobytes() for image in data}) > 8
    assert np.array_equal(data, crops(1)) and not np.array_equal(data, crops(2))
    for image in data:
        assert np.array_equal(np.diff(image[:, :, 0], axis=0), np.ones((9, 10)))
        assert np.array_equal(np.diff(image[:, :, 1], axis=1), np.ones((10, 9)))
    mirrored = [np.diff(image[:, :, 1], axis=1)[0, 0] for image in crops(1, mirror=1)]
    assert set(mirrored) == {1.0, -1.0}
    for more in ({"scale_jitter_type": 1}, {"random_scale": [12, 30]}, {"color_jitter": 1, "color_lighting": 1}):
        changed = crops(1, **more)
        assert changed.shape == (16, 10, 10, 3) and np.isfinite(changed).all() and not np.array_equal(changed, data)


def test_grey_and_colour_are_made_of_each_other(tmp_path):
    pixels = picture(5, 5)
    grey = run(tmp_path / "a", [tensors(png(pixels), 0)], crop=5, minsize=5, color=0)[0]
    assert grey.shape == (1, 5, 5, 1)
    assert np.abs(grey[0, :, :, 0] - pixels @ [0.114, 0.587, 0.299]).max() <= 1
    flat = picture(5, 5, 1)
    for stored in (png(flat), flat):
        found = run(tmp_path / "b", [tensors(stored, 0)], crop=5, minsize=5)[0]
        assert np.array_equal(found[0], np.repeat(flat, 3, axis=2))


def test_resizing_is_the_mean_of_areas():
    pixels = picture(12, 8)
    blocks = pixels.reshape(4, 3, 4, 2, 3).astype(np.float64).mean(axis=(1, 3))
    assert np.abs(images.resize(pixels, 4, 4) - blocks).max() <= 0.5 + 1e-3
    for height, width in [(5, 7), (7, 3), (30, 20), (30, 4), (1, 1)]:
        assert (images.resize(np.full((12, 8, 3), 77, np.uint8), height, width) == 77).all()  # weights add up to 1
    assert np.array_equal(images.resize(pixels, 24, 16)[::2, ::2], pixels)


def test_shorter_sides_get_the_length_asked_for(tmp_path):
    for size, arguments in [((20, 30), {"scale": 10}), ((30, 20), {"scale": 10}), ((5, 8), {"minsize": 10}),
                            ((20, 30), {"scale": 10, "warp": 1})]:
        data, _ = run(tmp_path / "db", [tensors(np.full((*size, 3), 9, np.uint8), 0)], crop=10, **arguments)
        assert data.shape == (1, 10, 10, 3) and (data == 9).all()


@pytest.mark.parametrize("arguments, says", [
    ({"crop": 4}, "scale"), ({"minsize": 4}, "crop"), ({"crop": 8, "minsize": 4}, "less than the crop"),
    ({"crop": 4, "minsize": 4, "scale": 4}, "one of them"), ({"crop": 4, "minsize": 4, "std": 0.0}, "none of them 0"),
    ({"crop": 4, "minsize": 4, "label_type": 4}, "label_type"),
    ({"crop": 4, "minsize": 4, "batch_size": 0}, "batch_size"),
    ({"crop": 4, "minsize": 4, "random_scale": [2, 3]}, "random_scale"),
    ({"crop": 4, "minsize": 4, "output_type": "int8"}, "output_type"),
])
def test_arguments_that_make_no_sense_are_refused(tmp_path, arguments, says):
    with pytest.raises(NetError, match=says):
        run(tmp_path / "db", [tensors(picture(8, 8), 0)], **arguments)


def test_damaged_records_are_named_and_tolerated_only_on_demand(tmp_path, caplog):
    good, bad = tensors(png(picture(4, 4)), 1), tensors(png(picture(4, 4))[:40], 2)
    with pytest.raises(NetError, match=r"record '0001'.*cannot be decoded"):
        run(tmp_path / "db", [good, bad, good], crop=4, minsize=4)
    _, label = run(tmp_path / "db", [good, bad, good], crop=4, minsize=4, max_decode_error_ratio=0.5)
    assert label.tolist() == [1, 1, 1] and "others took their place" in caplog.text
    for record, says in [(b"\xff\xff", "TensorProtos"), (tensors(picture(4, 4), 0)[:30], "TensorProtos"),
                         (caffe2_pb2.TensorProtos().SerializeToString(), "0 tensors")]:
        with pytest.raises(NetError, match=says):
            run(tmp_path / "db", [record], crop=4, minsize=4)
