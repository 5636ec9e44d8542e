"""Turns a corpus that does not fit into memory into a folder that runs train from.

Every stage works on shards, in several processes. A shard is written completely or not at all, and
a finished one is not written again. Duplicates and the split concern the whole corpus: they are
found by hashes, which each shard stores sorted, one slice of all hashes at a time. Memory depends
on the size of a shard and the number of processes, plus one byte for each pair of the corpus.

`nmt.preparing.prepare.prepare` is the entry point.
"""
