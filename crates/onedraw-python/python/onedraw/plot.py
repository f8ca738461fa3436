"""Pictures of distributions, with matplotlib: `pip install onedraw[plot]`.

Each function returns a `matplotlib.figure.Figure`, which notebooks show and `savefig` writes; no window is
opened, and pyplot is not used. The token that the seed draws is orange; the seed is 0 if none is given, so
that a picture is the same each time.

>>> import onedraw
>>> from onedraw import plot
>>> generator = onedraw.Generator()
>>> figure = plot.temperature(generator.logits("Tom saw a big")[-1], tokenizer=generator)
>>> [label.get_text() for label in figure.axes[0].get_xticklabels()][:3]
['␣truck', '␣red', '␣aeroplane']

`tokenizer` gives the text of the tokens: an `onedraw.Tokenizer`, a `Generator`, a tokenizer of transformers
or a function of an id. Characters that are missing in matplotlib's font are escaped;
`matplotlib.rcParams["font.family"] = ["DejaVu Sans", "Noto Sans CJK SC"]` adds another font.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from io import BytesIO
from typing import Any

import numpy as np

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.markers import CARETDOWN
    from matplotlib.patches import Patch
    from matplotlib.ticker import PercentFormatter
except ImportError as error:
    raise ImportError("onedraw.plot paints with matplotlib: install onedraw[plot]") from error

from . import presets
from ._label import Pieces, labels, shorten
from ._onedraw import Explanation, Sampled, SamplingParams, StageEffect, distribution, explain, headline_field

__all__ = ["generation", "pipeline", "temperature", "vary"]

# The colours of the program: they can be told apart by people who do not see red or green, and in print. The
# colours of text and background are those of matplotlib's settings.
GREY, PALE, BLUE, ORANGE, ROSE = "#767676", "#d8d8d8", "#3b6ea5", "#d95f02", "#e9c3c3"

MOST = 16
"""The most distributions that fit a figure."""

# The text of a token may look like a formula, but it is not one.
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}

# A triangle whose tip is at the end of a bar.
TRIANGLE: dict[str, Any] = {"marker": CARETDOWN, "linestyle": "none", "color": ORANGE, "markersize": 6, "clip_on": False, "zorder": 3}

# A dot that can be seen on a bar and beside it, also on a dark background.
DOT: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": "black", "markersize": 3.4, "markeredgecolor": "white", "clip_on": False, "zorder": 3}


class Picture(Figure):
    """A figure that notebooks show even if pyplot was never imported."""

    def __init__(self, width: float, height: float, title: str) -> None:
        super().__init__(figsize=(width, height))
        self.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
        self.suptitle(title, x=0.01, ha="left", fontsize=12, **PLAIN)

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def temperature(
    logits: Any,
    temperatures: Iterable[float] = (0.5, 1.0, 1.5),
    params: SamplingParams | Mapping[str, Any] | str | None = None,
    *,
    tokenizer: Pieces | None = None,
    top: int = 20,
    mask: Any = None,
    **parameters: Any,
) -> Figure:
    """A row of logits at several temperatures. The arguments are those of `vary`.

    >>> from onedraw import plot
    >>> figure = plot.temperature([2.0, 1.0, 0.0], [0.5, 1])
    >>> [[round(float(bar.get_height()), 3) for bar in bars] for bars in figure.axes[0].containers]
    [[0.867, 0.117, 0.016], [0.665, 0.245, 0.09]]
    """
    return vary(logits, "temperature", temperatures, params, tokenizer=tokenizer, top=top, mask=mask, **parameters)


def vary(
    logits: Any,
    name: str,
    values: Iterable[Any],
    params: SamplingParams | Mapping[str, Any] | str | None = None,
    *,
    tokenizer: Pieces | None = None,
    top: int = 20,
    mask: Any = None,
    **parameters: Any,
) -> Figure:
    """The distributions of a row of logits under several values of one parameter, side by side over the
    tokens that are the most likely in any of them. The legend has the number of tokens of each one, its
    entropy, and the share of the tokens that are not shown; a triangle points at the drawn token.

    `params` and keyword arguments are those of `onedraw.distribution`; `top` is how many tokens are shown.

    >>> from onedraw import plot
    >>> figure = plot.vary([2.0, 1.0, 0.0], "top_k", [1, 3])
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['top_k 1: 1 token, 0.00 bits', 'top_k 3: 3 tokens, 1.20 bits', 'drawn with seed 0']
    """
    if name in parameters:
        raise TypeError(f"{name} is what varies; leave it out of the other arguments")
    values = list(values)
    if not 1 <= len(values) <= MOST:
        raise ValueError(f"{len(values)} values of {name}; 1 to {MOST} fit a figure")
    _check_top(top)
    base = _resolved(params, parameters)
    each = [base.replace(**{name: value}) for value in values]
    rows, draws = [], []
    for one in each:
        row = _one(distribution(logits, one, mask=mask))
        rows.append(dict(zip(row.tokens.tolist(), row.probabilities.tolist(), strict=True)))
        draws.append(_one(explain(logits, one, listed=0, mask=mask)).token)
    tokens = _chosen(rows, draws, top)

    thickness = 0.8 / len(values)
    width = 1.2 + len(tokens) * max(0.36, 0.12 * len(values))
    figure = Picture(min(max(7.0, width), 24.0), 4.6 + 0.2 * min(len(values), 6), f"The next token, by {name}")
    axes = figure.add_subplot()
    colours = matplotlib.colormaps["viridis"](np.linspace(0.12, 0.85, len(values)))
    heights = [[row.get(token, 0.0) for token in tokens] for row in rows]
    for place, (value, row, drawn) in enumerate(zip(values, rows, draws, strict=True)):
        offset = (place + 0.5) * thickness - 0.4
        legend = shorten(_setting(name, value), 40) + f": {_tokens(sum(p > 0 for p in row.values()))}, {_entropy(row.values()):.2f} bits"
        if len(row) > len(tokens):
            legend += f", {_percent(sum(row.values()) - sum(heights[place]))} not shown"
        axes.bar(np.arange(len(tokens)) + offset, heights[place], thickness, color=colours[place], label=legend)
        axes.plot(tokens.index(drawn) + offset, row[drawn], **TRIANGLE)
    seed = "drawn with its seed" if name == "seed" else f"drawn with seed {base.seed}"
    _percentages(axes)
    axes.set_xlim(-0.6, len(tokens) - 0.4)
    axes.set_xticks(range(len(tokens)), labels(tokenizer, tokens), rotation=45, ha="right", rotation_mode="anchor", **PLAIN)
    axes.set_xlabel("token", color=GREY)
    axes.set_ylim(0.0, 1.06 * max(map(max, heights)))
    # The legend is above the bars, so that it never covers them.
    handles = [*axes.containers, Line2D([], [], label=seed, **TRIANGLE)]
    key = axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, ncols=1 + len(values) // 6, frameon=False, prop={"size": 9})
    for words in key.get_texts():
        words.set(**PLAIN)
    return figure


def pipeline(
    logits: Any,
    params: SamplingParams | Mapping[str, Any] | str | None = None,
    *,
    tokenizer: Pieces | None = None,
    top: int = 15,
    mask: Any = None,
    **parameters: Any,
) -> Figure:
    """What each stage of the chain makes of a row of logits: one panel per stage, over the same tokens.
    Tokens that a stage removes are pale there and have no bar after it; *others* are all tokens that are not
    shown, with a bar that is broken off if it is longer than that of any token. The last panel has the drawn
    token in orange.

    `params` and keyword arguments are those of `onedraw.explain`; `top` is how many tokens are shown.

    >>> from onedraw import plot
    >>> figure = plot.pipeline([2.0, 1.0, 0.5, -3.0], temperature=0.5, top_k=2)
    >>> [panel.get_title(loc="left").splitlines()[0] for panel in figure.axes]
    ["the model's row", 'temperature 0.5', 'top_k 2']
    """
    _check_top(top)
    resolved = _resolved(params, parameters)
    # All tokens are listed, because a token that leads after the last stage may be far down in the row.
    explanation: Explanation = _one(explain(logits, resolved, listed=len(logits), mask=mask))
    stages: list[StageEffect] = explanation.stages
    left = [{token.token: token.probability for token in stage.leading} for stage in stages]
    gone = [{token.token: token.probability for token in stage.removed} for stage in stages]
    rows = [{**after, **before} for after, before in zip(left, gone, strict=True)]
    tokens = _chosen(rows, [explanation.token], top)
    shown = set(tokens)
    has_others = any(len(row) > len(tokens) for row in rows)
    longest = max(row.get(token, 0.0) for row in rows for token in tokens)

    down = -(-len(stages) // 5)
    across = -(-len(stages) // down)  # Six panels are three above three, not five above one.
    bars = len(tokens) + has_others
    names = labels(tokenizer, tokens) + ["others"] * has_others
    title = f"The next token, stage by stage: seed {explanation.seed} draws {names[tokens.index(explanation.token)]} with {_percent(explanation.probability)}"
    figure = Picture(max(6.0, 1.6 + 2.5 * across), 0.8 + down * (1.4 + 0.25 * bars), title)
    headings = [[_heading(stage, resolved), *_notes(stage)] for stage in stages]
    for place, stage in enumerate(stages):
        axes = figure.add_subplot(down, across, place + 1)
        drawn = explanation.token if place == len(stages) - 1 else None
        for bar, token in enumerate(tokens):
            if token in gone[place]:
                _bar(axes, bar, gone[place][token], longest, ROSE, "gone", GREY)
            elif token in left[place]:
                colour = ORANGE if token == drawn else BLUE
                _bar(axes, bar, left[place][token], longest, colour, _percent(left[place][token]), ORANGE if token == drawn else None)
            else:
                _bar(axes, bar, 0.0, longest, PALE, "–", GREY)
        if has_others:
            others = sum(p for token, p in left[place].items() if token not in shown)
            _bar(axes, len(tokens), others, longest, PALE, _percent(others) if others else "–", GREY)
        axes.set_ylim(bars - 0.4, -0.6)
        axes.set_xlim(0.0, 1.45 * longest)
        axes.set_xticks([])
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.spines["left"].set_color(PALE)
        axes.set_yticks(range(bars), names if place % across == 0 else [""] * bars, **PLAIN)
        axes.tick_params(length=0, labelsize=9)
        # Panels that are side by side have headings of equally many lines.
        first = place - place % across
        lines = max(map(len, headings[first : first + across]))
        axes.set_title("\n".join(headings[place] + [""] * (lines - len(headings[place]))), loc="left", va="bottom", fontsize=9, linespacing=1.4, **PLAIN)
    figure.supxlabel("probability", fontsize=10, color=GREY)
    return figure


def generation(generated: Any, tokenizer: Pieces | None = None, *, width: int = 40) -> Figure:
    """A text from left to right: for each token a bar of its probability, and dots for the alternatives. If
    another token was more likely, the bar is orange and the text of that token is above it.

    `generated` is an `onedraw.Generated` or one of `onedraw.transformers`, or a list of `Sampled`, drawn with
    `logprobs=5` or so. By default the bars are the model's own probabilities; with
    `logprobs_mode="processed_logprobs"` they are those that were drawn from. `width` is the number of tokens
    in a line.

    >>> import onedraw
    >>> from onedraw import plot
    >>> generator = onedraw.Generator()
    >>> figure = plot.generation(generator.generate("Tom saw a big", seed=1, max_tokens=50, logprobs=5), generator)
    >>> len(figure.axes)
    2
    """
    if width < 1:
        raise ValueError(f"width is the number of tokens in a line, 1 or more, not {width}")
    steps = _steps(generated)
    names = labels(tokenizer, (step.token for step in steps))
    across, down = min(width, len(steps)), -(-len(steps) // width)
    bars = [math.exp(step.logprobs[0].logprob) for step in steps]
    mean = sum(bars) / len(steps)
    figure = Picture(max(7.0, 1.0 + 0.27 * across), 0.9 + 2.6 * down, f"{_tokens(len(steps))}, mean probability {_percent(mean)}")
    for line in range(down):
        axes = figure.add_subplot(down, 1, line + 1)
        places = range(line * width, min((line + 1) * width, len(steps)))
        likelier = [place for place in places if (steps[place].rank or 1) > 1]
        axes.bar(places, bars[places.start : places.stop], 0.8, color=[ORANGE if place in likelier else BLUE for place in places])
        dots = [(place, p) for place in places for p in _alternatives(steps[place])]
        if dots:
            axes.plot(*zip(*dots, strict=True), **DOT)
        _percentages(axes)
        axes.set_ylim(0.0, 1.0)
        axes.set_xlim(places.start - 0.6, places.start + max(across, 8) - 0.4)
        axes.set_xticks(places, names[places.start : places.stop], rotation=90, fontsize=8, **PLAIN)
        above = axes.secondary_xaxis("top")
        best = [next((other.token for other in steps[place].logprobs if other.rank == 1), None) for place in likelier]
        named = [(place, token) for place, token in zip(likelier, best, strict=True) if token is not None]
        above.set_xticks([place for place, _ in named], labels(tokenizer, (token for _, token in named)), rotation=90, fontsize=7, color=GREY, **PLAIN)
        above.tick_params(length=0, pad=3)
        above.spines["top"].set_visible(False)
    meanings = [Patch(color=BLUE, label="the most likely token"), Patch(color=ORANGE, label="another one, the most likely above it")]
    figure.legend(handles=[*meanings, Line2D([], [], label="alternatives", **DOT)], loc="outside lower left", ncols=3, frameon=False, prop={"size": 9})
    return figure


def _resolved(params: SamplingParams | Mapping[str, Any] | str | None, parameters: Mapping[str, Any]) -> SamplingParams:
    """The parameters as `SamplingParams`, with a seed."""
    if isinstance(params, SamplingParams):
        base = params
    elif isinstance(params, str):
        base = presets.by_name(params)
    else:
        base = SamplingParams(**(params or {}))
    resolved = base.replace(**parameters)
    return resolved if resolved.seed is not None else resolved.replace(seed=0)


def _check_top(top: int) -> None:
    if top < 1:
        raise ValueError(f"top is the number of tokens to show, 1 or more, not {top}")


def _one(result: Any) -> Any:
    """The result of the only row; an error if there are several."""
    if isinstance(result, list):
        raise ValueError("logits are one row here, [V]; take one with logits[i]")
    return result


def _chosen(rows: Sequence[Mapping[int, float]], drawn: Iterable[int], top: int) -> list[int]:
    """The tokens that are the most likely in any of the distributions; what is drawn is always among them."""
    always = set(drawn)
    # A token that is among the highest of all rows is among the highest of one row.
    leading = always.union(*(nsmallest(top, row, key=lambda token: (-row[token], token)) for row in rows))
    highest = {token: max(row.get(token, 0.0) for row in rows) for token in leading}
    ranked = sorted(leading, key=lambda token: (-highest[token], token))
    others = [token for token in ranked if token not in always][: max(top - len(always), 0)]
    return [token for token in ranked if token in always or token in others]


def _entropy(probabilities: Iterable[float]) -> float:
    """In bits."""
    return abs(sum(-p * math.log2(p) for p in probabilities if p > 0.0))


def _alternatives(step: Sampled) -> list[float]:
    """The probabilities of the tokens that were not drawn."""
    return [math.exp(other.logprob) for other in step.logprobs if other.token != step.token]


def _steps(generated: Any) -> list[Sampled]:
    """The draws of a text, all with their logprobs."""
    steps = list(getattr(generated, "sampled", generated))
    for step in steps:
        if not isinstance(step, Sampled):
            raise TypeError(f"a text is an onedraw.Generated or a list of onedraw.Sampled; this one has an object of the type {type(step).__name__}")
        if step.logprob is None:
            raise ValueError("the tokens have no logprobs: ask for them where the text is generated, with logprobs=5")
        # Probabilities add up to 1 at most.
        if sum(math.exp(min(other.logprob, 1.0)) for other in step.logprobs) > 1.0 + 1e-6:
            raise ValueError("these are logits: generate the text with a logprobs_mode of logprobs, raw or processed")
    if not steps:
        raise ValueError("the text has no tokens")
    return steps


def _heading(stage: StageEffect, params: SamplingParams) -> str:
    """The name of a stage, or of the parameter whose number stands for it, with that number."""
    if stage.stage == "row":
        return "the model's row"
    field = headline_field(stage.stage)
    return shorten(stage.stage if field is None else _setting(field, getattr(params, field)), 30)


def _setting(name: str, value: object) -> str:
    return f"{name} {value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else f"{name} {value}"


def _notes(stage: StageEffect) -> list[str]:
    gone = f", {stage.gone} gone" if stage.gone else ""
    mass = [f"{_percent(stage.mass)} of the mass kept"] if stage.gone else []
    decided = [shorten(stage.decision, 30)] if stage.decision else []
    return [_tokens(stage.tokens) + gone, f"entropy {stage.entropy:.2f} bits", *mass, *decided]


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _percent(p: float) -> str:
    """A percentage of about three digits, short enough to fit beside a bar."""
    share = 100.0 * p
    if share <= 0.0 or share >= 100.0:
        return "0%" if share <= 0.0 else "100%"
    if share < 0.01 or share >= 99.95:
        return "<0.01%" if share < 0.01 else ">99.9%"
    return f"{share:.2f}%" if share < 9.995 else f"{share:.1f}%"


def _bar(axes: Axes, place: int, p: float, longest: float, colour: str, words: str, ink: str | None) -> None:
    """A bar with words at its end; it is broken off if it is longer than the longest."""
    length = min(p, longest)
    axes.barh(place, length, 0.65, color=colour)
    axes.text(length + 0.03 * longest, place, words, va="center", fontsize=8, color=ink, **PLAIN)
    if p > 1.001 * longest:
        for start in (0.86, 0.91):
            axes.plot([start * longest, (start + 0.05) * longest], [place + 0.4, place - 0.4], color=axes.get_facecolor(), linewidth=2)


def _percentages(axes: Axes) -> None:
    """A vertical axis of probabilities."""
    axes.set_ylim(bottom=0.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("probability", color=GREY)
    axes.grid(axis="y", color=GREY, alpha=0.3, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(PALE)
    axes.tick_params(length=0)

