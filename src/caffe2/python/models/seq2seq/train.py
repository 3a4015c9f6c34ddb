"""Caffe2's `models.seq2seq.train`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.zoo.seq2seq.training": "Seq2SeqModelCaffe2 logger main run_seq2seq_model",
    "netgrad.training.zoo.seq2seq.batches": "Batch gen_batches prepare_batch",
    "netgrad.training.zoo.seq2seq.model_helper": "Seq2SeqModelHelper",
})

if __name__ == "__main__":
    from netgrad.training.zoo.seq2seq.training import main

    main()
