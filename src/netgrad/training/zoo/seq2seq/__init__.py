"""Sequence to sequence: an encoder and a decoder of LSTM layers, with attention, trained and searched by beams.

Sources: Sutskever, Vinyals, Le 2014 (arXiv:1409.3215); Bahdanau, Cho, Bengio 2014 (arXiv:1409.0473).
"""
