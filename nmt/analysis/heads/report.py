"""The report on a model's heads: what they attend to, and what the model is without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from nmt.analysis.heads.ablation import (
    Ablation,
    Head,
    Pruning,
    ablate_each,
    list_heads,
    measure_quality,
    plan_pruning,
    prune,
)
from nmt.analysis.heads.statistics import Array, Means, find_most_like, name_role
from nmt.analysis.pictures.grids import Grid, Row, draw_grids
from nmt.analysis.progress import track
from nmt.analysis.tables import Listing
from nmt.data.splitting import Pair
from nmt.inference.translator import Translator
from nmt.model.contract import AttentionKind

# Header of each measure; in a table, those that its kind of attention has.
_COLUMNS = {
    "entropy": "entropy",
    "entropy_share": "of max",
    "confidence": "confid.",
    "distance": "dist.",
    "previous": "prev.",
    "own": "own",
    "next": "next",
    "diagonal": "diag.",
    "mark": "mark",
}
_LEGEND = """\
entropy    of a row of attention weights, in nats; of max: as a share of a uniform row's
confid.    mean of the largest weight of each row
dist.      mean distance attended over: in positions; cross-attention: of relative positions, 0 to 1
prev.      weight on the position before; own: on the own one; next: on the one behind
diag.      weight on the position at the same relative place
mark       weight on the end mark; masked self-attention: on the begin mark
role       the place with more than half of the weight; or focused (confid. above 0.5), broad
           (entropy above 0.75 of max), mixed
most like  the head of the layer that attends most alike, and their Jensen–Shannon divergence, 0 to
           0.69 nats"""
_ABLATED = """\
loss BLEU  change of both when this head alone is taken away; on few sentences, BLEU changes partly
           by chance, and the loss is what heads are ranked by"""


@dataclass
class HeadReport:
    """All that is known of a model's heads."""

    run: str
    sentences: int
    kinds: Sequence[AttentionKind]
    means: Means
    ablation: Ablation | None = None
    pruning: Pruning | None = None

    def take_away(
        self,
        translator: Translator,
        pairs: Sequence[Pair],
        others: Sequence[Pair],
        language: str,
        console: Console,
    ) -> None:
        """Measure the model without each head on ``pairs``, then pruned on ``others``.

        The order of pruning comes from the first set, so that no head looks unimportant on the
        second because it was chosen there. Results enter the report one by one: an interruption
        loses none.

        Args:
            translator: of the model.
            pairs: to measure each head on.
            others: to measure pruning on.
            language: BCP 47 tag of their targets.
            console: shows the progress.
        """
        translator = translator.with_keras_engine("head analysis")
        model = translator.keras_engine("head analysis").model
        self.ablation = Ablation(len(pairs), measure_quality(translator, pairs, language))
        steps = ablate_each(translator, pairs, language)
        for head, found in track(steps, len(list_heads(model)), "without each head", console):
            self.ablation.without[head] = found
        order = self.ablation.order()
        self.pruning = Pruning(len(others), measure_quality(translator, others, language), order)
        curve = prune(translator, others, language, order)
        for count, found in track(curve, len(plan_pruning(len(order))), "pruning", console):
            self.pruning.without[count] = found

    def tabulate(self) -> list[Listing]:
        """Return the tables of the report."""
        listings = [self._tabulate_layers(), *map(self._tabulate_heads, self.kinds)]
        if self.pruning is not None:
            listings.append(self._tabulate_pruning(self.pruning))
        return listings

    def as_markdown(self) -> str:
        """Return the report as a document."""
        legend = "\n".join(f"    {line}" for line in self.explain().splitlines())
        begin = f"# Attention heads of {self.run}\n\n![The heads](heads.png)\n\n{legend}\n"
        return "\n".join([begin, *(one.as_markdown() for one in self.tabulate())])

    def explain(self) -> str:
        """Return what the columns of the tables mean."""
        lines = [
            f"{self.sentences:,} dev sentences, read with their references; layers and heads count "
            "from 1",
            _LEGEND,
        ]
        if self.ablation is not None:
            whole = self.ablation.whole
            lines += [
                _ABLATED,
                f"           with all heads: {whole.loss:.4f} nats per target piece, BLEU "
                f"{whole.bleu:.2f} (greedy)",
                f"           {whole.signature}",
            ]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the report for a file; arrays are [layers][heads], divergence [..][heads]."""
        content: dict[str, Any] = {
            "run": self.run,
            "sentences": self.sentences,
            "statistics": {
                kind.name: {name: values.tolist() for name, values in self.means[kind.name].items()}
                | {"role": self._name_roles(kind)}
                for kind in self.kinds
            },
        }
        if self.ablation is not None:
            content["importance"] = {
                "sentences": self.ablation.sentences,
                "bleu_signature": self.ablation.whole.signature,
                "whole": self.ablation.whole.scores(),
                "without": [
                    head._asdict() | found.scores() for head, found in self.ablation.without.items()
                ],
            }
        if self.pruning is not None:
            content["pruning"] = {
                "sentences": self.pruning.sentences,
                "order": [head._asdict() for head in self.pruning.order],
                "whole": self.pruning.whole.scores(),
                "without": [
                    {"heads": count} | found.scores()
                    for count, found in self.pruning.without.items()
                ],
            }
        return content

    def draw(self) -> Figure:
        """Draw entropy and, where it was measured, importance of all heads."""
        entropies = [
            Grid(kind.title, self.means[kind.name]["entropy_share"]) for kind in self.kinds
        ]
        rows = [Row("entropy, of max", 2, entropies)]
        if self.ablation is not None and self.ablation.without:
            losses = [Grid(kind.title, self._loss_increases(kind.name)) for kind in self.kinds]
            rows.append(Row("loss added without it, nats", 3, losses))
        return draw_grids(rows)

    def _shape(self, kind: str) -> tuple[int, int]:
        layers, heads = self.means[kind]["entropy"].shape
        return layers, heads

    def _name_roles(self, kind: AttentionKind) -> list[list[str]]:
        layers, heads = self._shape(kind.name)
        means = self.means[kind.name]
        found = {name: means[name] for name in _COLUMNS if name in means}
        return [
            [
                name_role(
                    kind, {name: float(values[layer, head]) for name, values in found.items()}
                )
                for head in range(heads)
            ]
            for layer in range(layers)
        ]

    def _loss_increases(self, kind: str) -> Array:
        found = np.full(self._shape(kind), np.nan)
        if self.ablation is not None:
            for head in self.ablation.without:
                if head.kind == kind:
                    found[head.layer - 1, head.number - 1] = self.ablation.loss_increase(head)
        return found

    def _tabulate_layers(self) -> Listing:
        of_kinds = {kind: found["entropy"].mean(1) for kind, found in self.means.items()}
        depth = max(map(len, of_kinds.values()))
        return Listing(
            "Entropy by layer",
            "In nats, mean of heads.",
            ["layer", *(kind.title for kind in self.kinds)],
            [
                [f"{layer + 1}"]
                + [f"{of[layer]:.2f}" if layer < len(of) else "–" for of in of_kinds.values()]
                for layer in range(depth)
            ],
        )

    def _tabulate_heads(self, kind: AttentionKind) -> Listing:
        found, roles = self.means[kind.name], self._name_roles(kind)
        names = [name for name in _COLUMNS if name in found]
        header = ["layer, head", "role", *(_COLUMNS[name] for name in names), "most like"]
        if self.ablation is not None:
            header += ["loss", "BLEU"]
        rows = []
        layers, heads = self._shape(kind.name)
        for layer in range(layers):
            alike = find_most_like(found["divergence"][layer])
            for head in range(heads):
                other = alike[head]
                cells = [f"{layer + 1}, {head + 1}", roles[layer][head]]
                cells += [f"{found[name][layer, head]:.2f}" for name in names]
                cells.append("–" if other is None else f"{other[0] + 1} ({other[1]:.2f})")
                if self.ablation is not None:
                    cells += self._format_changes(
                        self.ablation, Head(kind.name, layer + 1, head + 1)
                    )
                rows.append(cells)
        return Listing(kind.title.capitalize(), "", header, rows)

    @staticmethod
    def _format_changes(ablation: Ablation, head: Head) -> list[str]:
        if head not in ablation.without:
            return ["–", "–"]  # interrupted before it
        bleu = ablation.without[head].bleu - ablation.whole.bleu
        return [f"{ablation.loss_increase(head):+.4f}", f"{bleu:+.2f}"]

    def _tabulate_pruning(self, pruning: Pruning) -> Listing:
        names = [f"{head.kind} {head.layer}.{head.number}" for head in pruning.order]
        rows = [["0", "0%", f"{pruning.whole.loss:.4f}", f"{pruning.whole.bleu:.2f}", ""]]
        before = 0
        for count, found in pruning.without.items():
            rows.append(
                [
                    f"{count}",
                    f"{count / len(names):.0%}",
                    f"{found.loss:.4f}",
                    f"{found.bleu:.2f}",
                    ", ".join(names[before:count]),
                ]
            )
            before = count
        return Listing(
            "Without the least important heads",
            "Heads whose absence costs the least loss are taken away together, nothing is trained "
            f"again. Measured on {pruning.sentences:,} other dev sentences than those that the "
            "order comes from.",
            ["heads", "share", "loss", "BLEU", "and without"],
            rows,
        )
