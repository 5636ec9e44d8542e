"""What a comparison found, as sentences: the overall difference first, then by evidence."""

from __future__ import annotations

from collections.abc import Mapping

from nmt.analysis.comparison.analysis import Analysis, PairResult, SystemResult
from nmt.analysis.comparison.interactions import ALPHA, SliceResult
from nmt.analysis.comparison.stored import METRIC
from nmt.inference.significance import PairedTest, correct_p_values, format_p

_STRICT = 0.01  # significance level of noise, n-grams and coverage, as each adds tests
_MIN_RATE_DIFFERENCE = 0.005  # of words left out or added: smaller ones matter to nobody
_MAX_NGRAMS = 5  # that a sentence names
_MAX_ARRAYS = 3
_NO_DIFFERENCE = "no significant difference"


def describe_pair(pair: PairResult) -> list[str]:
    """Return the findings about a system against the first one."""
    overall = _describe_overall(pair)
    others = [
        *_describe_heads(pair),
        *(_describe_slice(pair, result) for result in pair.findings),
        *_describe_noise(pair),
        *_describe_leads(pair),
        *_describe_coverage(pair),
    ]
    weights = _describe_weights(pair)
    if others:
        return [overall, *others, *weights]
    tested = sum(result.test is not None for result in pair.slices)
    nothing = f"No kind of sentences differs more than others: {tested} kinds were tested."
    return [overall, nothing, *weights]


def _names(pair: PairResult) -> tuple[str, str]:
    return pair.first.system.name, pair.second.system.name


def _describe_overall(pair: PairResult) -> str:
    first, second = _names(pair)
    parts = []
    for name in (METRIC, "BLEU"):
        values = [each.statistics[name].score() for each in (pair.second, pair.first)]
        p_value = format_p(pair.p_values[name])
        parts.append(f"{name} {values[0]:.1f} against {values[1]:.1f}, {p_value}")
    scores = "; ".join(parts)
    test = pair.tests[METRIC]
    if pair.p_values[METRIC] > ALPHA:
        begin = f"Between {second} and {first} there is {_NO_DIFFERENCE}"
    else:
        begin = f"{second} is {_comparative(test.difference)} than {first}"
    return f"{begin}: {scores} ({len(pair.first.system.outputs):,} sentences)."


def _comparative(difference: float) -> str:
    return "better" if difference > 0 else "worse"


def _describe_heads(pair: PairResult) -> list[str]:
    """Return sentences about heads that one system alone has silent."""
    sentences = []
    results = (pair.first, pair.second)
    for result, other in (results, results[::-1]):
        silent = sorted(set(result.silent_heads) - set(other.silent_heads))
        if silent and pair.weights is not None:
            is_one = len(silent) == 1
            heads = "this head writes" if is_one else "these heads write"
            sentences.append(
                f"In {result.system.name} {heads} next to nothing: {'; '.join(silent)}."
            )
    return sentences


def _describe_slice(pair: PairResult, result: SliceResult) -> str:
    """Describe a slice in which the difference of the systems departs from the rest."""
    _, second = _names(pair)
    inside, outside = result.inside, result.outside
    assert result.test is not None, "only slices that are tested are findings"
    assert result.p_value is not None, "likewise"
    inner, outer = result.difference, outside[1] - outside[0]
    if inner * result.test.difference > 0:
        phrase = f"is {_comparative(inner)}"
    else:  # the sign is that of the other sentences, but the difference is smaller
        phrase = "gains less" if outer > 0 else "loses less"
    return (
        f"{second} {phrase} where {result.slice.name}: {METRIC} {inside[1]:.1f} against "
        f"{inside[0]:.1f} in {result.slice.size:,} sentences (all others: {outside[1]:.1f} "
        f"against {outside[0]:.1f}), {format_p(result.p_value)}."
    )


def _describe_noise(pair: PairResult) -> list[str]:
    second = pair.second.system.name
    p_values = correct_tests(pair.noise)
    clean = [each.statistics[METRIC].score() for each in (pair.second, pair.first)]
    sentences = []
    for kind, test in pair.noise.items():
        if p_values[kind] > _STRICT:
            continue
        noisy = [each.noise[kind].score() for each in (pair.second, pair.first)]
        way = "copes better" if test.difference > 0 else "suffers more"
        sentences.append(
            f"{second} {way} with {kind}: {METRIC} {noisy[0]:.1f} against {noisy[1]:.1f} (clean: "
            f"{clean[0]:.1f} against {clean[1]:.1f}), {format_p(p_values[kind])}."
        )
    return sentences


def _describe_leads(pair: PairResult) -> list[str]:
    names = _names(pair)
    sentences = []
    for leader in (0, 1):
        leads = [lead for lead in pair.leads if lead.leader == leader and lead.p_value <= _STRICT][
            :_MAX_NGRAMS
        ]
        if leads:
            listed = "; ".join(
                f"“{lead.words}” ({lead.right[leader]} against {lead.right[1 - leader]} of "
                f"{lead.occurrences})"
                for lead in leads
            )
            sentences.append(f"{names[leader]} has more often right: {listed}.")
    return sentences


def _describe_coverage(pair: PairResult) -> list[str]:
    verbs = {"omissions": ("leaves out", "source content words"), "additions": ("adds", "words")}
    second = pair.second.system.name
    p_values = correct_tests(pair.coverage)
    sentences = []
    for name, test in pair.coverage.items():
        rates = [get_rate(each, name) for each in (pair.second, pair.first)]
        if p_values[name] <= _STRICT and abs(rates[0] - rates[1]) >= _MIN_RATE_DIFFERENCE:
            verb, unit = verbs[name]
            amount = "more" if test.difference > 0 else "fewer"
            sentences.append(
                f"{second} {verb} {amount} {unit}: {rates[0]:.1%} against {rates[1]:.1%}, "
                f"{format_p(p_values[name])}."
            )
    return sentences


def correct_tests(tests: Mapping[str, PairedTest]) -> dict[str, float]:
    """Return the p-values of tests after Holm's correction, by name."""
    p_values = correct_p_values([test.p_value for test in tests.values()])
    return dict(zip(tests, p_values, strict=True))


def get_rate(result: SystemResult, name: str) -> float:
    """Return the rate of ``omissions`` or ``additions``, 0 to 1."""
    assert result.coverage is not None, "only of systems whose outputs were aligned"
    return result.coverage.omission_rate if name == "omissions" else result.coverage.addition_rate


def _describe_weights(pair: PairResult) -> list[str]:
    weights = pair.weights
    if weights is None or not weights.identical:
        return []
    first, second = _names(pair)
    if not weights.changed:
        return [f"The weights of {second} and {first} are the same."]
    listed = ", ".join(name for name, _ in weights.changed[:_MAX_ARRAYS])
    more = len(weights.changed) - _MAX_ARRAYS
    return [
        f"{weights.identical} of {weights.arrays} arrays of weights are the same in both; "
        f"different: {listed}{f' and {more} more' if more > 0 else ''}."
    ]


def describe_single(analysis: Analysis) -> list[str]:
    """Return the scores of one system alone, and its weakest kinds of sentences."""
    result = analysis.results[0]
    statistics = result.statistics[METRIC]
    scores = ", ".join(f"{name} {each.score():.1f}" for name, each in result.statistics.items())
    sentences = [f"{result.system.name}: {scores} ({len(statistics.counts):,} sentences)."]
    scored = sorted(
        ((statistics.score(each.members), each) for each in analysis.slices if each.size >= 10),
        key=lambda pair: pair[0],
    )
    sentences += [
        f"It is weakest where {each.name}: {METRIC} {score:.1f} in {each.size:,} sentences."
        for score, each in scored[:3]
        if score < statistics.score()
    ]
    if result.silent_heads:
        sentences.append(f"Heads that write next to nothing: {'; '.join(result.silent_heads)}.")
    return sentences
