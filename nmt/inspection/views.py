"""Which attention a model has, and how each kind is labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # the TensorBoard plugin reads this module, and needs no Keras
    from nmt.inference.translator import Attention


class View(NamedTuple):
    """One kind of attention."""

    name: str  # in file names and TensorBoard tags
    title: str
    kind: str  # field of `Attention` with the weights
    rows: str  # field of `Attention` with the tokens that attend
    columns: str  # field of `Attention` with the tokens attended to


VIEWS = (
    View("encoder_self_attention", "encoder self-attention", "encoder", "source", "source"),
    View(
        "decoder_masked_self_attention",
        "decoder masked self-attention",
        "decoder",
        "target_in",
        "target_in",
    ),
    # Labelled with the token that a position writes: alignment is of what comes out.
    View("cross_attention", "cross-attention", "cross", "target_out", "source"),
)


def labelled(attention: Attention, view: View) -> dict[str, Any]:
    """Return the token arguments of `attention_figure` for one view."""
    return {
        "rows": getattr(attention, view.rows),
        "columns": getattr(attention, view.columns),
        "row_label": "source" if view.rows == "source" else "target",
        "column_label": "source" if view.columns == "source" else "target",
    }
