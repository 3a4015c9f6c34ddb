"""Arguments on the command line that say what a model is like."""

from __future__ import annotations

import argparse
from typing import Any


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that training and translation share."""
    parser.add_argument("--unk-threshold", type=int, default=50,
                        help="words that occur so often or less are unknown ones")
    parser.add_argument("--use-bidirectional-encoder", action="store_true", help="the first layer reads both ways")
    parser.add_argument("--use-attention", action="store_true")
    for side, embedding in (("encoder", 256), ("decoder", 512)):
        parser.add_argument(f"--{side}-cell-num-units", type=int, default=512)
        parser.add_argument(f"--{side}-num-layers", type=int, default=2)
        parser.add_argument(f"--{side}-embedding-size", type=int, default=embedding)
    parser.add_argument("--decoder-softmax-size", type=int, help="width of a linear map before the scores")


def model_params_of(args: argparse.Namespace) -> dict[str, Any]:
    """The parameters of a model that the arguments describe.

    Raises:
        ValueError: an odd number of units is to be shared by two directions.
    """
    encoder = [{"num_units": args.encoder_cell_num_units} for _ in range(args.encoder_num_layers)]
    if args.use_bidirectional_encoder:
        if args.encoder_cell_num_units % 2:
            raise ValueError(f"--encoder-cell-num-units {args.encoder_cell_num_units} is odd; two directions share "
                             "them alike")
        encoder[0]["num_units"] //= 2
    return {
        "attention": "regular" if args.use_attention else "none",
        "decoder_layer_configs": [{"num_units": args.decoder_cell_num_units} for _ in range(args.decoder_num_layers)],
        "encoder_type": {"encoder_layer_configs": encoder,
                         "use_bidirectional_encoder": args.use_bidirectional_encoder},
        "encoder_embedding_size": args.encoder_embedding_size,
        "decoder_embedding_size": args.decoder_embedding_size,
        "decoder_softmax_size": args.decoder_softmax_size,
    }
