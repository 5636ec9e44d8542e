"""Model classes from Python; a run folder stores only their names.

A class, or a function in its place, is called as ``model_class(sizes, name=..., dtype=...)``, like
`nmt.model.Transformer`. It returns a `nmt.model.EncoderDecoder`, whose docstring lists the methods
to implement. The sizes are configured, except for the vocabulary size, which is the tokenizer's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nmt.errors import UserError
from nmt.model.sizes import RecurrentSizes, TransformerSizes

if TYPE_CHECKING:  # loads Keras
    from nmt.model.contract import Model
    from nmt.runs.folder import RunFolder

ModelClass = Callable[..., "Model"]
_NAMES = "object_name_uids"  # of Keras: how often each name of a layer is taken
_METHODS = ("start", "step", "capacity")  # that `EncoderDecoder` leaves to its subclasses


def name_component(component: object) -> str:
    """Return the name of a class or function, or of the class of another object."""
    component = getattr(component, "func", component)  # of a `functools.partial`
    return str(getattr(component, "__qualname__", type(component).__qualname__))


def build_custom(
    model_class: ModelClass, sizes: TransformerSizes | RecurrentSizes, precision: str
) -> Model:
    """Build a model of a class from Python; ``precision`` names a Keras dtype policy.

    Raises:
        UserError: it is not an `EncoderDecoder`, lacks methods, is built from the sizes of another
            kind of model, or two of its weights share a name.
    """
    name = name_component(model_class)
    with _counting_names_anew():
        model = _build(model_class, name, sizes, precision)
    paths = Counter(weight.path for weight in model.weights)
    if shared := [path for path, count in paths.items() if count > 1]:
        raise UserError(f"model={name} has several weights called {shared[0]}: name its layers")
    return model


@contextmanager
def _counting_names_anew() -> Iterator[None]:
    """Let layers without a name have the same one whenever the model is built.

    Names that the caller's own layers have got stay taken.
    """
    from keras.src.backend.common import global_state
    from keras.src.utils.naming import reset_uids

    taken = global_state.get_global_attribute(_NAMES)
    reset_uids()
    try:
        yield
    finally:
        global_state.set_global_attribute(_NAMES, taken)


def _build(
    model_class: ModelClass, name: str, sizes: TransformerSizes | RecurrentSizes, precision: str
) -> Model:
    from nmt.model.encoder_decoder import EncoderDecoder

    _check_sizes(model_class, name, sizes)
    model = model_class(sizes, name="model", dtype=precision)
    if not isinstance(model, EncoderDecoder):
        raise UserError(
            f"model={name} makes a {type(model).__name__}: derive the class from "
            "nmt.model.Transformer, Recurrent or EncoderDecoder"
        )
    missing = [method for method in _METHODS if not hasattr(model, method)]
    if type(model).forward is EncoderDecoder.forward:
        missing.append("forward")
    if missing:
        raise UserError(f"model={name} lacks {', '.join(missing)}: see nmt.model.EncoderDecoder")
    model.build()
    return model


def _check_sizes(
    model_class: ModelClass, name: str, sizes: TransformerSizes | RecurrentSizes
) -> None:
    """Check that a class is built from sizes of the configured kind; functions are not checked."""
    needed = getattr(getattr(model_class, "func", model_class), "sizes_class", None)
    remedies = {
        TransformerSizes: "model=compact or another transformer",
        RecurrentSizes: "model=rnn",
    }
    if needed in remedies and not isinstance(sizes, needed):
        raise UserError(
            f"model={name} is built from {needed.__name__}, and the configured model has "
            f"{type(sizes).__name__}: add {remedies[needed]} to the overrides"
        )


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
