"""Caffe2's `modeling.get_entry_from_blobs`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.net_modifiers.reports": "GetEntryFromBlobs",
        "netgrad.training.net_modifiers.base": "NetModifier",
    },
)
