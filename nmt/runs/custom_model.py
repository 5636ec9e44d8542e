"""Model classes from Python, which a run folder stores the name of only.

A class, or a function in its place, is called as ``model_class(sizes, name=..., dtype=...)``, like
`nmt.model.Transformer`. It returns a `nmt.model.EncoderDecoder`, whose docstring lists the methods
to implement. The sizes are configured, except for the vocabulary size, which is the tokenizer's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from nmt.errors import UserError
from nmt.model.sizes import RecurrentSizes, Sizes

if TYPE_CHECKING:  # loads Keras
    from nmt.model.contract import Model
    from nmt.runs.folder import RunFolder

ModelClass = Callable[..., "Model"]
_METHODS = ("start", "step", "capacity")  # that `EncoderDecoder` leaves to its subclasses


def name_component(component: object) -> str:
    """Return the name of a class or function, or of the class of another object."""
    component = getattr(component, "func", component)  # of a `functools.partial`
    return str(getattr(component, "__qualname__", type(component).__qualname__))


def build_custom(model_class: ModelClass, sizes: Sizes | RecurrentSizes, precision: str) -> Model:
    """Build a model of a class from Python; ``precision`` names a Keras dtype policy.

    Raises:
        UserError: it is not an `EncoderDecoder`, lacks methods, or two of its weights share a name.
    """
    from keras.src.utils.naming import reset_uids

    from nmt.model.encoder_decoder import EncoderDecoder

    name = name_component(model_class)
    reset_uids()  # so that layers without a name have the same one whenever the model is built
    model = model_class(sizes, name="model", dtype=precision)
    if not isinstance(model, EncoderDecoder):
        raise UserError(
            f"model={name} makes a {type(model).__name__}: derive the class from "
            "nmt.model.Transformer, Recurrent or EncoderDecoder"
        )
    if missing := [method for method in _METHODS if not hasattr(model, method)]:
        raise UserError(f"model={name} lacks {', '.join(missing)}: see nmt.model.EncoderDecoder")
    model.build()
    paths = Counter(weight.path for weight in model.weights)
    if shared := [path for path, count in paths.items() if count > 1]:
        raise UserError(f"model={name} has several weights called {shared[0]}: name its layers")
    return model


def read_model_name(run: RunFolder) -> str | None:
    """Return the name of the class that a run was trained with; None: as configured.

    Raises:
        UserError: the file that stores it is damaged.
    """
    return run.read_components().get("model")


def check_model_class(run: RunFolder) -> None:
    """Check that a run has been opened with the class that it was trained with.

    Raises:
        UserError: the class is missing, or another one.
    """
    stored = read_model_name(run)
    passed = None if run.model_class is None else name_component(run.model_class)
    if stored != passed:
        remedy = f"leave out model={passed}"
        if stored:
            remedy = f"in Python, pass model={stored} to nmt.Translator.load or nmt.fit"
        raise UserError(f"{run.path} was trained with model={stored or 'as configured'}: {remedy}")
