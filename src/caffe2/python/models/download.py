"""Caffe2's `models.download`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.zoo.downloaded": """
        DOWNLOAD_BASE_URL DOWNLOAD_COLUMNS ModelDownloader deleteDirectory downloadFromURLToFile
        downloadModel getURLFromName progressBar validModelName""",
})
