"""Input from databases, of tensors, images and videos."""

from __future__ import annotations

from typing import Any


def db_input(model: Any, blobs_out: Any, batch_size: int, db: str, db_type: str) -> Any:
    """Batches of tensors from a database, through a reader ``dbreader_<db>`` that the init net opens."""
    reader = model.param_init_net.CreateDB([], "dbreader_" + db, db=db, db_type=db_type)
    return model.net.TensorProtosDBInput(reader, blobs_out, batch_size=batch_size)


def image_input(
    model: Any, blob_in: Any, blob_out: list[str], order: str = "NCHW", use_gpu_transform: bool = False, **kwargs: Any
) -> Any:
    """Batches of images and labels from a reader, by the operator ImageInput; ``is_test`` has to be said.

    Images come out of the operator as NHWC and are turned to NCHW where that is the order; with ``use_gpu_transform``
    the operator does it.
    """
    if "is_test" not in kwargs:
        raise AssertionError("image_input needs is_test=: False crops and mirrors at random")
    if order != "NCHW":
        return model.net.ImageInput(blob_in, blob_out, **kwargs)
    if use_gpu_transform:
        return model.net.ImageInput(blob_in, blob_out, use_gpu_transform=1, **kwargs)
    images, *others = model.net.ImageInput(blob_in, [blob_out[0] + "_nhwc", *blob_out[1:]], **kwargs)
    return (model.net.NHWC2NCHW(images, blob_out[0]), *others)


def video_input(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Batches of clips from a reader, by the operator VideoInput."""
    return model.net.VideoInput(blob_in, blob_out, **kwargs)
