"""The models, their parts in ``keras.ops``, and their contract; imports nothing else of `nmt`.

Dimensions, here and everywhere: ``B`` batch, ``S`` source length, ``T`` target length, ``D`` model
width, ``H`` heads, ``K`` width of a head (D / H), ``F`` feed-forward width, ``V`` vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.model.sizes import Sizes
    from nmt.model.transformer import Transformer

__all__ = ["Sizes", "Transformer"]


def __getattr__(name: str) -> Any:
    """Import a model, and Keras with it, only when it is asked for: `contract` needs none."""
    if name == "Transformer":
        from nmt.model.transformer import Transformer

        return Transformer
    if name == "Sizes":
        from nmt.model.sizes import Sizes

        return Sizes
    raise AttributeError(f"module 'nmt.model' has no attribute {name!r}")
