"""Caffe2's `models.seq2seq.seq2seq_util`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.zoo.seq2seq.vocabulary": """
        EOS EOS_ID GO GO_ID PAD PAD_ID UNK UNK_ID gen_vocab get_numberized_sentence""",
    "netgrad.training.zoo.seq2seq.encoder": """
        build_embedding_encoder build_embeddings get_layer_scope rnn_bidirectional_layer
        rnn_unidirectional_layer""",
    "netgrad.training.zoo.seq2seq.decoder": """
        LSTMWithAttentionDecoder build_embedding_decoder build_initial_rnn_decoder_states output_projection""",
})
