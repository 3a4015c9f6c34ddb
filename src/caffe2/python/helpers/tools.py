"""Caffe2's `helpers.tools`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.data": "image_input video_input"})
