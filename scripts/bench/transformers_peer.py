"""The weights of a run in a Hugging Face model, for bench_translate.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any


class PeerError(Exception):
    """Why the model cannot be loaded in transformers."""


def load_peer(translator: Any) -> Transformers:
    """Return a translator of Hugging Face with the same weights.

    Raises:
        PeerError: transformers is missing, or has no model of this shape.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise PeerError(f"{error.name} is not installed") from error
    transformers.logging.set_verbosity_error()
    sizes = translator.engine.model.sizes
    if not _has_peer(sizes):
        raise PeerError(
            "transformers has no model of this shape: train with model.positions=sinusoidal "
            "model.qk_norm=false"
        )
    config = transformers.M2M100Config(
        vocab_size=sizes.vocabulary_size,
        d_model=sizes.d_model,
        encoder_layers=sizes.encoder_layers,
        decoder_layers=sizes.decoder_layers,
        encoder_attention_heads=sizes.num_heads,
        decoder_attention_heads=sizes.num_heads,
        encoder_ffn_dim=sizes.ffn_width,
        decoder_ffn_dim=sizes.ffn_width,
        activation_function={"gelu": "gelu_pytorch_tanh"}.get(sizes.activation, sizes.activation),
        max_position_embeddings=sizes.max_length,
        scale_embedding=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    torch.set_num_threads(os.cpu_count() or 1)
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    copy_weights(translator.engine.model, model)
    return Transformers(model, translator)


def _has_peer(sizes: Any) -> bool:
    """Whether M2M100 computes the same function as a model of these sizes."""
    from nmt.model.sizes import AttentionSizes, TransformerSizes

    if not isinstance(sizes, TransformerSizes) or sizes.positions not in ("sinusoidal", "learned"):
        return False
    attention = replace(sizes.self_attention, dropout=0.0, kernel="explicit")
    return (
        attention == AttentionSizes(sizes.d_model, sizes.num_heads)
        and sizes.norm == "pre"
        and sizes.activation != "swiglu"
        and not sizes.output_bias
    )


def copy_weights(ours: Any, theirs: Any) -> None:
    """Copy the weights of a run into a Hugging Face model."""
    import torch

    weights = {name: weight.numpy() for name, weight in ours.named_weights().items()}
    theirs_by_ours = {
        "self_attention/": "self_attn.",
        "causal_self_attention/": "self_attn.",
        "cross_attention/": "encoder_attn.",
        "self_attention_norm/": "self_attn_layer_norm.",
        "causal_self_attention_norm/": "self_attn_layer_norm.",
        "cross_attention_norm/": "encoder_attn_layer_norm.",
        "feed_forward_norm/": "final_layer_norm.",
        "feed_forward/inner/": "fc1.",
        "feed_forward/outer/": "fc2.",
    }
    ends = {"query/": "q_proj.", "key/": "k_proj.", "value/": "v_proj.", "output/": "out_proj."}
    state = {}
    for name, array in weights.items():
        side, _, rest = name.partition("/")
        stack, _, number = side.partition("_")
        if stack == "embedding":
            state["model.shared.weight"] = array
            continue
        target = f"model.{stack}."
        if number == "norm":
            target += "layer_norm."
        elif stack in ("encoder", "decoder"):
            begin = next(prefix for prefix in theirs_by_ours if rest.startswith(prefix))
            target += f"layers.{number}.{theirs_by_ours[begin]}"
            rest = rest.removeprefix(begin)
            for old, new in ends.items():
                rest = rest.replace(old, new)
        kind = {"kernel": "weight", "gamma": "weight", "beta": "bias"}.get(rest.split(".")[-1])
        target += ".".join([*rest.split(".")[:-1], kind or rest.split(".")[-1]])
        state[target] = array.T if rest.endswith("kernel") else array
    tensors = {name: torch.tensor(array) for name, array in state.items()}
    missing, unexpected = theirs.load_state_dict(tensors, strict=False)
    tied = {"encoder.embed_tokens", "decoder.embed_tokens", "lm_head"}
    untied = [name for name in missing if not any(part in name for part in tied)]
    if unexpected or untied:
        raise SystemExit(f"the weights of transformers have other names: {unexpected} {untied}")
    positions = torch.tensor(ours.position_table())
    for stack in (theirs.model.encoder, theirs.model.decoder):
        table = stack.embed_positions  # its first two rows are padding
        table.weights = torch.cat([torch.zeros(2, positions.shape[1]), positions])
        for module in stack.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = 1e-6
    theirs.tie_weights()


class Transformers:
    """`generate` of Hugging Face, over batches of similar length."""

    def __init__(self, model: Any, translator: Any) -> None:
        self.model, self.translator = model, translator

    def translate(self, texts: Sequence[str], beam_size: int) -> list[str]:
        import torch

        sources = self.translator.tokenizer.encode(texts)
        order = sorted(range(len(texts)), key=lambda i: -len(sources[i]))
        translations = [""] * len(texts)
        size = self.translator.decoding.batch_size
        for begin in range(0, len(order), size):
            members = order[begin : begin + size]
            longest = 1 + len(sources[members[0]])
            ids = torch.zeros((len(members), longest), dtype=torch.int64)
            for row, i in zip(ids, members, strict=True):
                row[: len(sources[i]) + 1] = torch.tensor([*sources[i], 2])
            with torch.inference_mode():
                outputs = self.model.generate(
                    input_ids=ids,
                    attention_mask=(ids != 0).long(),
                    num_beams=beam_size,
                    do_sample=False,
                    max_new_tokens=min(2 * longest + 20, self.translator.engine.max_length - 1),
                )
            decoded = self.translator.tokenizer.decode(outputs.tolist())
            for i, text in zip(members, decoded, strict=True):
                translations[i] = text
        return translations
