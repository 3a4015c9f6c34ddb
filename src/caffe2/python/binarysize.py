"""Caffe2's `binarysize`."""

import sys

from netgrad.facade import facade

facade(__name__, {
    "netgrad.tools.symbol_sizes": "GetSymbolTrie MaybeAddColor PrintTrie ReadableSize Trie main",
})

if __name__ == "__main__":
    from netgrad.tools.symbol_sizes import main

    main(sys.argv[1:])
