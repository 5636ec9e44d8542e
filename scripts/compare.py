"""Compare runs: a table, a plot, and a page with the attention of one sentence in every model.

    python scripts/compare.py runs/compare_heads
    python scripts/compare.py runs/2030-01-01_a runs/2030-01-02_b --sentence "Hoy hace frío."

A folder of runs stands for all in it that have saved a checkpoint. Written to --output, by default
``comparison`` beside the first run:

    comparison.md    what differs between the configurations, scores, sizes, speed
    comparison.png   dev BLEU against minutes of training, and quality against parameters
    comparison.html  every model translates the sentence, and shows its attention; asks no server
"""

from __future__ import annotations

import argparse
import gc
import html
import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from nmt.analysis.tables import Listing
from nmt.arguments import Parser
from nmt.config.schema import flatten
from nmt.errors import UserError, exit_on_user_error
from nmt.files import write_text
from nmt.runs.building import make_sizes
from nmt.runs.folder import CONFIG_FILE, RunFolder
from nmt.startup.commands import set_up_translation
from nmt.startup.quiet import quiet_start
from nmt.viewer.page import attention_cell, make_document

if TYPE_CHECKING:  # loads matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nmt.inference.results import Attention
    from nmt.inference.translator import Translator

NAME = "comparison"
NONE = "–"  # in the place of what a run does not have
DEV, TEST = "dev/BLEU", "BLEU"
UNTOLD = frozenset({"name", "model.name", "runs_dir", "cache_dir"})  # keys that change no result
FRAME_HEIGHT = 800  # pixels of a frame with attention
LABEL_GAP = 0.045  # between two labels, of the height of a plot

_LEGEND = (
    "Dev BLEU: the best of all evaluations, greedy. Test BLEU and chrF2++: with 95% intervals. "
    "Tokens/s: median while training, both sides. Minutes: of training, with its evaluations. "
    "Bytes: what decoding keeps, in float32, for each hypothesis, for each token of one, and for "
    "each source token. Attention: layers × heads of each kind."
)


@dataclass(frozen=True)
class Compared:
    """What one run has to show, without its weights."""

    name: str
    folder: RunFolder
    differences: Mapping[str, Any]  # keys of the configuration that are not the same in all runs
    scores: Mapping[str, Mapping[str, float | None]]  # on the test split, by metric
    curve: Sequence[tuple[float, float]]  # (minutes, dev BLEU)
    parameters: int
    kept: tuple[int, int, int]  # in decoding, see `nmt.model.costs.StateBytes`
    speed: float | None  # tokens per second
    minutes: float | None

    @property
    def best(self) -> float | None:
        """Return the best dev BLEU."""
        return max((score for _, score in self.curve), default=None)


@dataclass(frozen=True)
class Seen:
    """What one model makes of the sentence."""

    kinds: str = NONE  # of attention
    translation: str = ""
    attention: Attention | None = None
    why_not: str = ""  # why there is no attention


def main() -> None:
    set_up_translation()
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run, or many in one")
    parser.add_argument("--sentence", help="(default: the first probe of the first run)")
    parser.add_argument("--output", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    exit_on_user_error(lambda: compare(arguments.runs, arguments.sentence, arguments.output))


def compare(paths: Sequence[Path], sentence: str | None, output: Path | None) -> None:
    """Compare runs and write all three files."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    folders = find_runs(paths)
    output = output or folders[0].path.parent / NAME
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{output} cannot be made: {error.strerror}") from error
    sentence = sentence or choose_sentence(folders[0])
    with quiet_start():
        from nmt.analysis.pictures.heatmaps import save_figure

        runs = read_runs(folders)
    seen = []
    for run in runs:
        console.print(f"{run.name}: {run.folder.path}")
        seen.append(look(run.folder, sentence))
    listing = tabulate(runs, seen)
    console.print(f"\n{listing.as_markdown()}")
    head = f"# {len(runs)} runs compared\n\n![Quality against minutes and size]({NAME}.png)\n\n"
    tail = f"\nThe attention of “{sentence}” in all of them: [{NAME}.html]({NAME}.html)\n"
    write_text(output / f"{NAME}.md", head + listing.as_markdown() + tail)
    save_figure(draw(runs), output / f"{NAME}.png")
    write_text(output / f"{NAME}.html", make_page(sentence, runs, seen))
    console.print(f"written to {output}: {NAME}.md, {NAME}.png, {NAME}.html")


# --- Reading ------------------------------------------------------------------------------------


def find_runs(paths: Iterable[Path]) -> list[RunFolder]:
    """Open runs, and those in folders that have saved a checkpoint, each once.

    Raises:
        UserError: a path is neither a run nor a folder of such.
    """
    found: dict[Path, RunFolder] = {}
    for path in paths:
        inside = []
        if path.is_dir() and not (path / CONFIG_FILE).is_file():
            inside = sorted(one for one in path.iterdir() if any(one.glob("checkpoints/*.npz")))
            if not inside:
                raise UserError(f"{path} is no run, and holds none that has saved a checkpoint")
        for run in inside or [path]:
            folder = RunFolder.open(run)
            found.setdefault(folder.path, folder)  # `latest` is one of the others
    return list(found.values())


def choose_sentence(folder: RunFolder) -> str:
    """Return a sentence to show: a probe of the run, or one of its samples.

    Raises:
        UserError: it has neither.
    """
    for probe in folder.config.training.probes or []:
        return probe
    for path in sorted(folder.samples.glob("step_*.tsv")):
        for line in path.read_text(encoding="utf-8").split("\n")[1:2]:  # below the header
            if source := line.split("\t")[0]:
                return source
    raise UserError(f"{folder.path} has no sentence to show: give one with --sentence")


def read_runs(folders: Sequence[RunFolder]) -> list[Compared]:
    """Read what runs have written, but their weights."""
    flat = [dict(flatten(folder.config)) for folder in folders]
    names = name_runs(folders)
    differences = find_differences(flat)
    runs = []
    for folder, name, differing in zip(folders, names, differences, strict=True):
        metrics = folder.metrics.read()
        speeds = [one["speed/tokens_per_second"] for one in metrics if _tells_speed(one)]
        costs = make_sizes(folder.config.model, folder.load_tokenizer().vocabulary_size).costs
        runs.append(
            Compared(
                name=name,
                folder=folder,
                differences=differing,
                scores=folder.test_scores(),
                curve=read_curve(metrics),
                parameters=sum(part.parameters for part in costs.list_parts()),
                kept=costs.count_state(),
                speed=statistics.median(speeds) if speeds else None,
                minutes=metrics[-1]["seconds"] / 60 if metrics else None,
            )
        )
    return runs


def _tells_speed(record: Mapping[str, Any]) -> bool:
    return record.get("speed/tokens_per_second") is not None


def name_runs(folders: Sequence[RunFolder]) -> list[str]:
    """Return the name that each run's configuration gives it, or its folder's if two share it."""
    names = [folder.config.name for folder in folders]
    often = Counter(names)
    return [
        name if often[name] == 1 else folder.path.name
        for name, folder in zip(names, folders, strict=True)
    ]


def find_differences(configurations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return of each configuration the keys whose values are not the same in all that have them.

    Args:
        configurations: values by dotted key; one kind of model has keys that another lacks.
    """
    keys = dict.fromkeys(itertools.chain.from_iterable(configurations))
    differing = []
    for key in keys:
        values = [one[key] for one in configurations if key in one]
        if key not in UNTOLD and any(value != values[0] for value in values):
            differing.append(key)
    return [{key: one[key] for key in differing if key in one} for one in configurations]


def read_curve(metrics: Iterable[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Return (minutes, dev BLEU) of every evaluation."""
    return [(one["seconds"] / 60, one[DEV]) for one in metrics if one.get(DEV) is not None]


def look(folder: RunFolder, sentence: str) -> Seen:
    """Translate the sentence and read the attention; say why, if that cannot be."""
    from nmt.inference.translator import Translator

    try:
        with quiet_start():
            translator = Translator.load(folder.path)
            kinds = describe_attention(translator)
            found = translator.hypotheses([sentence])[0]
            attention = translator.attention(sentence, found[0]) if found else None
    except UserError as error:
        return Seen(why_not=str(error))
    finally:
        gc.collect()  # the model before
    if attention is None:
        return Seen(kinds, why_not="the sentence is empty, or too long for the model")
    return Seen(kinds, found[0].text, attention)


def describe_attention(translator: Translator) -> str:
    """Say of each kind of attention how many layers and heads it has."""
    model = translator.keras_engine("attention").model
    layers = {kind.name: model.attention_layers(kind.name) for kind in model.attention_kinds}
    return ", ".join(f"{name} {len(of)}×{of[0].num_heads}" for name, of in layers.items())


# --- The table ----------------------------------------------------------------------------------


def tabulate(runs: Sequence[Compared], seen: Sequence[Seen]) -> Listing:
    """Lay out all numbers, a line for each run."""
    scores = ("test BLEU", "chrF2++", "dev BLEU")
    costs = ("parameters", "tokens/s", "minutes")
    kept = ("bytes/hypothesis", "bytes/token", "bytes/source token")
    rows = [
        (
            run.name,
            describe_differences(run.differences),
            format_score(run.scores.get(TEST)),
            format_score(run.scores.get("chrF2++")),
            NONE if run.best is None else f"{run.best:.2f}",
            f"{run.parameters:,}",
            NONE if run.speed is None else f"{run.speed:,.0f}",
            NONE if run.minutes is None else f"{run.minutes:.1f}",
            *(f"{count:,}" for count in run.kept),
            look.kinds,
        )
        for run, look in zip(runs, seen, strict=True)
    ]
    header = ("run", "differs in", *scores, *costs, *kept, "attention")
    return Listing("Results", f"{name_best(runs)}{_LEGEND}", header, rows)


def name_best(runs: Sequence[Compared]) -> str:
    """Say which run has the best dev BLEU, which is what runs are chosen by."""
    scored = [(run.best, run.name) for run in runs if run.best is not None]
    if not scored:
        return ""
    score, name = max(scored, key=lambda one: one[0])
    return f"The best on dev is {name}, BLEU {score:.2f}. "


def describe_differences(differences: Mapping[str, Any]) -> str:
    """Write ``positions=rotary, training.max_steps=500``."""
    return ", ".join(
        f"{key.removeprefix('model.')}={format_value(value)}" for key, value in differences.items()
    )


def format_value(value: Any) -> str:
    """Write a value as the command line has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def format_score(score: Mapping[str, float | None] | None) -> str:
    """Write a score with its interval."""
    if score is None or score["value"] is None:
        return NONE
    width = score["half_width"]
    return f"{score['value']:.2f}" + ("" if width is None else f" ± {width:.2f}")


# --- The plot -----------------------------------------------------------------------------------


def draw(runs: Sequence[Compared]) -> Figure:
    """Draw dev BLEU against minutes, and quality against parameters."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    height = max(4.5, 1.2 + 0.18 * len(runs))
    figure = Figure(figsize=(13, height), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    palette, styles = colormaps["tab10"].colors, ("-", "--", ":", "-.")  # type: ignore[attr-defined]
    colours = [palette[i % len(palette)] for i in range(len(runs))]
    ends = []
    for i, run in enumerate(runs):
        if run.curve:
            style = styles[i // len(palette) % len(styles)]
            left.plot(*zip(*run.curve, strict=True), style, color=colours[i], marker=".", lw=1.2)
            ends.append((run.curve[-1], run.name, colours[i]))
    left.set(xlabel="minutes of training", ylabel="dev BLEU, greedy", title="Quality against time")
    label_points(left, ends)
    tested = [_test_score(run) for run in runs]
    of_test = all(score is not None for score in tested)
    dots = []
    for run, score, colour in zip(runs, tested, colours, strict=True):
        value = score if of_test else run.best
        if value is not None:
            dots.append(((run.parameters / 1e6, value), run.name, colour))
            width = run.scores[TEST]["half_width"] if of_test else None
            right.errorbar(*dots[-1][0], yerr=width, fmt="o", color=colour, elinewidth=0.6)
    right.set(
        xlabel="parameters, millions",
        ylabel="test BLEU, 95% interval" if of_test else "best dev BLEU, greedy",
        title="Quality against size",
    )
    right.margins(x=0.15)
    label_points(right, dots)
    return figure


def _test_score(run: Compared) -> float | None:
    return run.scores[TEST]["value"] if TEST in run.scores else None


def label_points(axes: Axes, points: Sequence[tuple[tuple[float, float], str, Any]]) -> None:
    """Name points at the right edge, where no name covers another, and draw a line to each.

    Args:
        axes: with everything else drawn.
        points: ((x, y), name, colour).
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)  # from here on
    places = spread([(y - low) / (high - low) for (_, y), _, _ in points], LABEL_GAP)
    for (point, name, colour), place in zip(points, places, strict=True):
        axes.annotate(
            name,
            point,
            xytext=(1.06, place),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=colour,
            parse_math=False,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "lw": 0.5,
                "alpha": 0.6,
                "relpos": (0.0, 0.5),  # from the left edge of the name
                "shrinkA": 1.0,
            },
        )
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Return places from 0 to 1, ``gap`` apart and in the order of the wanted ones, near them.

    The sum of squared distances is the least there is: without the gaps before it, no place may be
    below the one before, and neighbours that would be are pooled (Ayer et al. 1955).
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    gap = min(gap, 1 / max(len(wanted) - 1, 1))
    pools: list[list[float]] = []
    for rank, i in enumerate(order):
        pools.append([wanted[i] - rank * gap])
        while len(pools) > 1 and statistics.mean(pools[-2]) >= statistics.mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    level = [statistics.mean(pool) for pool in pools for _ in pool]
    highest = 1 - gap * (len(wanted) - 1)
    places = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        places[i] = min(max(level[rank], 0.0), highest) + rank * gap
    return places


# --- The page -----------------------------------------------------------------------------------

_STYLE = """:root { color-scheme: light dark; }
body {
  margin: 0; padding: 1rem 1.25rem; font: 0.9375rem/1.45 system-ui, sans-serif;
  background: light-dark(#fbfaf7, #17181b); color: light-dark(#1c1c1f, #ececef);
}
h1 { font-size: 1.25rem; }
h2 { margin: 0; font-size: 1rem; }
main { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); }
section {
  min-width: 0; padding: 0.75rem; border: 1px solid light-dark(#cbc8c0, #45464d);
  border-radius: 0.5rem;
}
p { margin: 0.25rem 0; }
.facts { color: light-dark(#5c5c64, #a9a9b2); font-size: 0.8125rem; }
"""
_BODY = """<h1 dir="auto">{sentence}</h1>
<p>Each model reads this sentence and writes its own translation.</p>
<main>
{sections}
</main>
"""


def make_page(sentence: str, runs: Sequence[Compared], seen: Sequence[Seen]) -> str:
    """Return an HTML page with the sentence's attention in all models, side by side."""
    sections = []
    for run, model in zip(runs, seen, strict=True):
        facts = [
            describe_differences(run.differences),
            f"{run.parameters:,} parameters",
            f"test BLEU {format_score(run.scores.get(TEST))}",
            f"attention {model.kinds}",
        ]
        shown = f"<p>{html.escape(model.why_not)}</p>"
        if model.attention is not None:
            shown = f'<p dir="auto">{html.escape(model.translation)}</p>\n'
            shown += attention_cell(model.attention, FRAME_HEIGHT)
        sections.append(
            f"<section>\n<h2>{html.escape(run.name)}</h2>\n"
            f'<p class="facts">{html.escape("; ".join(filter(None, facts)))}</p>\n'
            f"{shown}\n</section>"
        )
    body = _BODY.format(sentence=html.escape(sentence), sections="\n".join(sections))
    return make_document(f"Attention in {len(runs)} models", _STYLE, body)


if __name__ == "__main__":
    main()
