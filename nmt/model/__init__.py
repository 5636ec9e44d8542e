"""The transformer and its parts in ``keras.ops``; imports nothing else of this package.

Dimensions, here and everywhere: ``B`` batch, ``S`` source length, ``T`` target length, ``D`` model
width, ``H`` heads, ``K`` width of a head (D / H), ``F`` feed-forward width, ``V`` vocabulary.
"""

from nmt.model.transformer import Transformer

__all__ = ["Transformer"]
