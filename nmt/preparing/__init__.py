"""A corpus that does not fit into memory becomes a folder that runs train from.

Every stage works on shards, in processes of their own, and writes each shard whole or not at all;
what is there is not made again. What holds for the whole corpus (duplicates, the split) is found by
hashes that the shards keep sorted, slice by slice. Memory depends on the size of a shard and on the
number of processes; of the whole corpus there is one byte for each pair.

`nmt.preparing.prepare.prepare` is the one entry.
"""
