"""The report on a model's heads: where they attend, and how the model performs without them."""

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
from nmt.analysis.heads.statistics import Means, find_most_like, name_role
from nmt.analysis.pictures.grids import Grid, Row, draw_grids
from nmt.analysis.tables import Listing, escape_markdown
from nmt.data.splitting import Pair
from nmt.inference.translator import Translator
from nmt.model.contract import AttentionKind
from nmt.startup.progress import track

# Header of each measure; a table has the measures of its kind of attention.
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
confid.    mean of the largest weight of each row, that on EOS excluded
dist.      mean distance to the attended position; cross-attention: of relative positions, 0 to 1
prev.      weight on the previous position; own: on the own position; next: on the next one
diag.      weight on the same relative position
mark       weight on EOS; masked self-attention: on BOS
role       the position with more than half of the weight; or focused (confid. above 0.5), broad
           (entropy above 0.75 of max), mixed
most like  the most similar head of the layer; their Jensen–Shannon divergence, 0 to 0.69 nats"""
_ABLATED = """\
loss BLEU  change of both without this head. Heads are ranked by loss: on few sentences, BLEU
           changes partly by chance"""


@dataclass
class HeadReport:
    """Statistics of a model's heads and, once measured, quality without them."""

    run: str
    sentences: int
    kinds: Sequence[AttentionKind]
    means: Means
    ablation: Ablation | None = None
    pruning: Pruning | None = None

    def measure_ablations(
        self,
        translator: Translator,
        pairs: Sequence[Pair],
        others: Sequence[Pair],
        language: str,
        console: Console,
    ) -> None:
        """Measure the model without each head, then without the least important heads together.

        The order of pruning comes from other sentences than its quality: otherwise a head could
        look unimportant only because it was chosen on them. Results are added to the report one by
        one, so an interruption loses none.

        Args:
            translator: a translator of the model.
            pairs: sentences to measure each head on.
            others: sentences to measure pruning on.
            language: BCP 47 tag of the targets.
            console: shows the progress.
        """
        translator = translator.with_keras_engine("head analysis")
        model = translator.keras_engine("head analysis").model
        self.ablation = Ablation(len(pairs), measure_quality(translator, pairs, language))
        steps = ablate_each(translator, pairs, language)
        for head, quality in track(steps, len(list_heads(model)), "without each head", console):
            self.ablation.without[head] = quality
        order = self.ablation.order()
        self.pruning = Pruning(len(others), measure_quality(translator, others, language), order)
        curve = prune(translator, others, language, order)
        for count, quality in track(curve, len(plan_pruning(len(order))), "pruning", console):
            self.pruning.without[count] = quality

    def tabulate(self) -> list[Listing]:
        """Return the tables of the report."""
        listings = [self._tabulate_layers(), *map(self._tabulate_heads, self.kinds)]
        if self.pruning is not None:
            listings.append(self._tabulate_pruning(self.pruning))
        return listings

    def as_markdown(self) -> str:
        """Return the report as a Markdown document."""
        legend = "\n".join(f"    {line}" for line in self.explain().splitlines())
        title = f"# Attention heads of {escape_markdown(self.run)}"
        head = f"{title}\n\n![The heads](heads.png)\n\n{legend}\n"
        return "\n".join([head, *(listing.as_markdown() for listing in self.tabulate())])

    def explain(self) -> str:
        """Return the meaning of the columns of the tables."""
        lines = [
            f"{self.sentences:,} dev sentences, read with their references; layers and heads count "
            "from 1",
            _LEGEND,
        ]
        if self.ablation is not None:
            baseline = self.ablation.baseline
            lines += [
                _ABLATED,
                f"           with all heads: {baseline.loss:.4f} nats per target token, BLEU "
                f"{baseline.bleu:.2f} (greedy)",
                f"           {baseline.signature}",
            ]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the content of a JSON file; arrays are [layers][heads], divergence [..][heads]."""
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
                "bleu_signature": self.ablation.baseline.signature,
                "whole": self.ablation.baseline.scores(),
                "without": [
                    head._asdict() | quality.scores()
                    for head, quality in self.ablation.without.items()
                ],
            }
        if self.pruning is not None:
            content["pruning"] = {
                "sentences": self.pruning.sentences,
                "order": [head._asdict() for head in self.pruning.order],
                "whole": self.pruning.baseline.scores(),
                "without": [
                    {"heads": count} | quality.scores()
                    for count, quality in self.pruning.without.items()
                ],
            }
        return content

    def draw(self) -> Figure:
        """Draw entropy and, if measured, importance of all heads."""
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
        names = [name for name in _COLUMNS if name in means]
        return [
            [
                name_role(kind, {name: float(means[name][layer, head]) for name in names})
                for head in range(heads)
            ]
            for layer in range(layers)
        ]

    def _loss_increases(self, kind: str) -> np.ndarray:
        increases = np.full(self._shape(kind), np.nan)
        if self.ablation is not None:
            for head in self.ablation.without:
                if head.kind == kind:
                    increases[head.layer - 1, head.number - 1] = self.ablation.loss_increase(head)
        return increases

    def _tabulate_layers(self) -> Listing:
        columns = [means["entropy"].mean(1) for means in self.means.values()]
        depth = max(map(len, columns))
        return Listing(
            "Entropy by layer",
            "In nats, mean of heads.",
            ["layer", *(kind.title for kind in self.kinds)],
            [
                [f"{layer + 1}"]
                + [f"{column[layer]:.2f}" if layer < len(column) else "–" for column in columns]
                for layer in range(depth)
            ],
        )

    def _tabulate_heads(self, kind: AttentionKind) -> Listing:
        means, roles = self.means[kind.name], self._name_roles(kind)
        names = [name for name in _COLUMNS if name in means]
        header = ["layer, head", "role", *(_COLUMNS[name] for name in names), "most like"]
        if self.ablation is not None:
            header += ["loss", "BLEU"]
        rows = []
        layers, heads = self._shape(kind.name)
        for layer in range(layers):
            similar = find_most_like(means["divergence"][layer])
            for head in range(heads):
                other = similar[head]
                cells = [f"{layer + 1}, {head + 1}", roles[layer][head]]
                cells += [f"{means[name][layer, head]:.2f}" for name in names]
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
            return ["–", "–"]  # interrupted before this head
        bleu = ablation.without[head].bleu - ablation.baseline.bleu
        return [f"{ablation.loss_increase(head):+.4f}", f"{bleu:+.2f}"]

    def _tabulate_pruning(self, pruning: Pruning) -> Listing:
        names = [f"{head.kind} {head.layer}.{head.number}" for head in pruning.order]
        rows = [["0", "0%", f"{pruning.baseline.loss:.4f}", f"{pruning.baseline.bleu:.2f}", ""]]
        previous = 0
        for count, quality in pruning.without.items():
            rows.append(
                [
                    f"{count}",
                    f"{count / len(names):.0%}",
                    f"{quality.loss:.4f}",
                    f"{quality.bleu:.2f}",
                    ", ".join(names[previous:count]),
                ]
            )
            previous = count
        return Listing(
            "Without the least important heads",
            "The heads whose absence increases the loss least are removed together, without "
            f"training. Measured on {pruning.sentences:,} dev sentences that did not determine the "
            "order.",
            ["heads", "share", "loss", "BLEU", "and without"],
            rows,
        )
