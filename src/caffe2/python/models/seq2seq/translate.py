"""Caffe2's `models.seq2seq.translate`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.zoo.seq2seq.translation": """
        Seq2SeqModelCaffe2EnsembleDecoder Seq2SeqModelCaffe2EnsembleDecoderBase logger main
        run_seq2seq_beam_decoder _weighted_sum=_mean""",
    "netgrad.recurrent.beam_search": "BeamSearchForwardOnly",
    "netgrad.training.zoo.seq2seq.model_helper": "Seq2SeqModelHelper",
})

if __name__ == "__main__":
    from netgrad.training.zoo.seq2seq.translation import main

    main()
