"""Made by ``python -m netgrad.ops.index``; do not edit."""

INDEX: dict[str, str] = {
    "If": "control",
    "Python": "python",
    "RecurrentNetwork": "recurrent",
    "Slice": "layout",
    "SpatialBN": "normalization",
    "WeightedSum": "arithmetic",
    "WeightedSumGradient": "arithmetic",
}
