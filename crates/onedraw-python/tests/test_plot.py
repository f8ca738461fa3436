"""Pictures: their numbers are those of the distributions, their words those of the tokens."""

from __future__ import annotations

import math
import doctest
import io
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread

import onedraw
from onedraw import _label, plot

PROMPT = "Tom saw a big"


@pytest.fixture(scope="module")
def generator() -> Any:
    return onedraw.Generator()


@pytest.fixture(scope="module")
def row(generator: Any) -> Any:
    return generator.logits(PROMPT)[-1]


@pytest.fixture(autouse=True)
def no_pyplot() -> Iterator[None]:
    """Whatever is painted, pyplot knows no figure of it."""
    yield
    assert matplotlib.pyplot.get_fignums() == []


def panels(figure: Figure) -> list[Any]:
    """Its axes, whose bars matplotlib's types do not know."""
    return list(figure.axes)


def ticks(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def widths(axes: Any) -> list[float]:
    """The bars of a panel, from the top."""
    return [bar.get_width() for bar in axes.patches]


def colours(axes: Any) -> list[str]:
    return [to_hex(bar.get_facecolor()) for bar in axes.patches]


def pixels(figure: Figure) -> Any:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG\r\n\x1a\n")
    file.seek(0)
    return imread(file)


# One parameter, several values.


def test_bars_are_the_probabilities_at_each_temperature(row: Any, generator: Any) -> None:
    temperatures = (0.5, 1.0, 1.5)
    figure = plot.temperature(row, temperatures, tokenizer=generator, top=12, seed=3)
    (axes,) = panels(figure)
    dense = [onedraw.distribution(row, temperature=t).dense(len(row)) for t in temperatures]
    drawn = {onedraw.sample(row, temperature=t, seed=3).token for t in temperatures}
    by_mass = [int(token) for token in np.argsort(-np.max(dense, axis=0), kind="stable")]
    others = [token for token in by_mass if token not in drawn][: 12 - len(drawn)]
    tokens = [token for token in by_mass if token in drawn or token in others]
    assert len(axes.containers) == 3
    for bars, probabilities in zip(axes.containers, dense, strict=True):
        assert [bar.get_height() for bar in bars] == [probabilities[token] for token in tokens]
    assert ticks(axes) == [_label.visible(generator.tokenizer.piece(token)) for token in tokens]
    assert "␣truck" in ticks(axes)


def test_the_legend_has_tokens_entropy_and_what_is_not_shown() -> None:
    row = np.log(np.array([0.5, 0.25, 0.125, 0.125], dtype="f4"))
    figure = plot.vary(row, "top_k", [2, 4], top=2, temperature=1)
    words = [text.get_text() for text in panels(figure)[0].get_legend().get_texts()]
    assert words == ["top_k 2: 2 tokens, 0.92 bits", "top_k 4: 4 tokens, 1.75 bits, 25.0% not shown", "drawn with seed 0"]


@pytest.mark.parametrize(("name", "values"), [("top_p", [0.3, 0.9]), ("min_p", np.array([0.1, 0.4])), ("top_k", np.arange(1, 4)), ("logit_bias", [{}, {5: 9.0}])])
def test_any_parameter_varies(row: Any, name: str, values: Any) -> None:
    figure = plot.vary(row, name, values, {"temperature": 0.8}, top=8)
    for bars, value in zip(panels(figure)[0].containers, values, strict=True):
        probabilities = onedraw.distribution(row, temperature=0.8, **{name: value}).dense(len(row))
        assert [bar.get_height() for bar in bars] == [probabilities[int(label[1:])] for label in ticks(panels(figure)[0])]


def test_a_triangle_points_at_what_is_drawn(row: Any) -> None:
    figure = plot.vary(row, "seed", [1, 2, 3], top=5)
    (axes,) = panels(figure)
    tips = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines]
    for seed, (x, y), bars in zip([1, 2, 3], tips, axes.containers, strict=True):
        token = onedraw.sample(row, seed=seed).token
        bar = bars[ticks(axes).index(f"#{token}")]
        assert (x, y) == (pytest.approx(bar.get_x() + bar.get_width() / 2), bar.get_height())


def test_a_mask_leaves_what_it_allows() -> None:
    figure = plot.vary([1.0, 2.0, 3.0], "temperature", [1], mask=np.array([0b011], dtype="u4"))
    assert ticks(panels(figure)[0]) == ["#1", "#0"]


# Stage by stage.


def test_panels_are_the_stages_of_the_explanation(row: Any, generator: Any) -> None:
    settings = {"temperature": 0.8, "top_k": 20, "top_p": 0.5, "seed": 5}
    figure = plot.pipeline(row, settings, tokenizer=generator, top=30)
    explanation = onedraw.explain(row, settings, listed=len(row))
    headings = [axes.get_title(loc="left").splitlines() for axes in panels(figure)]
    assert [heading[0] for heading in headings] == ["the model's row", "temperature 0.8", "top_k 20", "top_p 0.5"]
    names = [label.get_text() for label in panels(figure)[0].get_yticklabels()]
    assert names[-1] == "others" and len(names) == 31
    tokens = [generator.tokenizer.id(name.replace("␣", "Ġ")) for name in names[:-1]]
    assert None not in tokens
    for axes, stage, heading in zip(panels(figure), explanation.stages, headings, strict=True):
        assert heading[1].startswith(f"{stage.tokens} tokens") and heading[2] == f"entropy {stage.entropy:.2f} bits"
        left = {token.token: token.probability for token in stage.leading}
        gone = {token.token: token.probability for token in stage.removed}
        assert widths(axes)[:-1] == [left.get(token, gone.get(token, 0.0)) for token in tokens]
        words = [text.get_text() for text in axes.texts]
        assert [word == "gone" for word in words[:-1]] == [token in gone for token in tokens]
        if stage.gone:
            assert heading[1].endswith(f"{stage.gone} gone") and "of the mass kept" in heading[3]
    assert colours(panels(figure)[2])[25] == plot.ROSE and colours(panels(figure)[3])[25] == plot.PALE


@pytest.mark.parametrize("seed", range(4))
def test_the_drawn_token_is_orange_in_the_last_panel(row: Any, generator: Any, seed: int) -> None:
    figure = plot.pipeline(row, "creative", tokenizer=generator, top=4, seed=seed)
    sampled = onedraw.sample(row, "creative", seed=seed)
    names = [label.get_text() for label in panels(figure)[0].get_yticklabels()]
    orange = [names[place] for place, colour in enumerate(colours(panels(figure)[-1])) if colour == plot.ORANGE]
    assert orange == [_label.visible(generator.tokenizer.piece(sampled.token))]
    assert all(plot.ORANGE not in colours(axes) for axes in panels(figure)[:-1])
    assert figure.get_suptitle().startswith(f"The next token, stage by stage: seed {seed} draws {orange[0]} with ")


def test_others_are_added_up_and_broken_off() -> None:
    row = np.log(np.array([0.2, 0.2, 0.2, 0.2, 0.2], dtype="f4"))
    (axes,) = panels(plot.pipeline(row, top=1))
    assert widths(axes) == pytest.approx([0.2, 0.2]) and axes.texts[1].get_text() == "80.0%"
    assert len(axes.lines) == 2


# A whole text.


def test_bars_of_a_text_are_the_sampled_probabilities(generator: Any) -> None:
    generated = generator.generate(PROMPT, seed=1, max_tokens=50, logprobs=5)
    figure = plot.generation(generated, generator, width=20)
    assert len(panels(figure)) == 3
    sampled = generated.sampled
    heights = [bar.get_height() for axes in panels(figure) for bar in axes.patches]
    assert heights == [math.exp(step.logprob) for step in sampled]
    assert [name for axes in panels(figure) for name in ticks(axes)] == [_label.visible(generator.tokenizer.piece(step.token)) for step in sampled]
    orange = [colour == plot.ORANGE for axes in panels(figure) for colour in colours(axes)]
    assert orange == [step.rank > 1 for step in sampled] and any(orange) and not all(orange)
    # The dots, and what was likelier above the bars.
    dots = [float(p) for axes in panels(figure) for p in axes.lines[0].get_ydata()]
    assert dots == pytest.approx([np.exp(other.logprob) for step in sampled for other in step.logprobs if other.token != step.token])
    above = [name for axes in panels(figure) for name in ticks(axes.child_axes[0])]
    best = [next(other.token for other in step.logprobs if other.rank == 1) for step in sampled if step.rank > 1]
    assert above == [_label.visible(generator.tokenizer.piece(token)) for token in best]


def test_a_text_may_be_a_list_of_draws_or_have_them(generator: Any) -> None:
    sampled = generator.generate(PROMPT, seed=1, max_tokens=6, logprobs=2).sampled
    for text in (sampled, tuple(sampled), types.SimpleNamespace(sampled=sampled)):
        (axes,) = panels(plot.generation(text))
        assert ticks(axes) == [f"#{step.token}" for step in sampled]


def test_dots_are_probabilities(generator: Any) -> None:
    """Of two tokens that are all there are, the dot is what the bar leaves."""

    def generated(mode: str) -> Any:
        ids = {"allowed_token_ids": [264, 265], "temperature": 1, "top_k": 0, "top_p": 1}
        return generator.generate(PROMPT, seed=1, max_tokens=3, logprobs=2, logprobs_mode=mode, **ids)

    (axes,) = panels(plot.generation(generated("processed_logprobs")))
    dots = dict(zip(*axes.lines[0].get_data(), strict=True))
    assert [bar.get_height() + dots[place] for place, bar in enumerate(axes.patches)] == pytest.approx([1, 1, 1])
    assert all(0 < p < 1 for p in dots.values())
    for mode in ("raw_logits", "processed_logits"):
        with pytest.raises(ValueError, match="these are logits"):
            plot.generation(generated(mode))


def test_without_alternatives_there_are_no_dots(generator: Any) -> None:
    (axes,) = panels(plot.generation(generator.generate(PROMPT, seed=1, max_tokens=4, logprobs=0), generator))
    assert len(axes.patches) == 4 and len(axes.lines) == 0


# Words.


def test_labels_are_literal() -> None:
    pieces = {0: "$x^2$", 1: "\\alpha", 2: " a\n", 3: "", 4: "_{b}$", 5: "\x00", 6: "a very long token indeed", 7: "\U0001f642"}
    shown = ["$x^2$", "\\alpha", "␣a\\n", "(empty)", "_{b}$", "\\x00", "a␣very␣long␣t…", "\\U0001f642"]
    row = np.linspace(2, 0, 8, dtype="f4")
    with matplotlib.rc_context({"text.usetex": False}):
        figure = plot.temperature(row, tokenizer=pieces.__getitem__)
        assert ticks(panels(figure)[0]) == shown
        assert not any(label.get_parse_math() or label.get_usetex() for label in panels(figure)[0].get_xticklabels())
        # A formula that does not close would fail here, and a glyph that is missing warn.
        assert pixels(figure).std() > 0.05
        assert pixels(plot.pipeline(row, tokenizer=pieces.__getitem__)).std() > 0.05


def test_who_names_the_tokens(generator: Any) -> None:
    class Decoder:
        def decode(self, tokens: list[int]) -> str:
            return "+".join(map(str, tokens))

        def __call__(self, text: str) -> None:
            raise AssertionError("a tokenizer of transformers takes a text when it is called")

    tokenizer = generator.tokenizer
    assert _label.labels(generator, [0, 263]) == _label.labels(tokenizer, [0, 263]) == _label.labels(tokenizer.piece, np.array([0, 263]))
    assert _label.labels(Decoder(), [7]) == ["7"]
    assert _label.labels(None, [7]) == ["#7"]
    assert _label.labels(tokenizer, [len(tokenizer)]) == [f"#{len(tokenizer)}"]
    with pytest.raises(TypeError, match="not an object of the type int"):
        _label.labels(5, [7])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the text of token 7 is a str, not an object of the type int"):
        _label.labels(lambda token: token, [7])


# Figures as such.


def test_pictures_are_not_blank_and_notebooks_show_them(row: Any, generator: Any) -> None:
    text = generator.generate(PROMPT, seed=1, max_tokens=5, logprobs=3)
    for figure in (plot.temperature(row, tokenizer=generator), plot.pipeline(row, "balanced"), plot.generation(text, generator)):
        assert isinstance(figure, plot.Picture)
        assert pixels(figure).std() > 0.05
        assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_large_vocabulary(generator: Any) -> None:
    row = np.random.default_rng(0).normal(size=128_256).astype("f4")
    figure = plot.pipeline(row, temperature=0.5, top_k=50, top=10)
    assert [len(axes.patches) for axes in panels(figure)] == [11, 11, 11]


def test_what_cannot_be_painted(row: Any, generator: Any) -> None:
    with pytest.raises(ValueError, match="ask for them where the text is generated, with logprobs=5"):
        plot.generation(generator.generate(PROMPT, seed=1, max_tokens=3), generator)
    with pytest.raises(ValueError, match="the text has no tokens"):
        plot.generation([], generator)
    with pytest.raises(TypeError, match="a list of onedraw.Sampled; this one has an object of the type int"):
        plot.generation([1, 2], generator)
    with pytest.raises(ValueError, match="width is the number of tokens in a line"):
        plot.generation([], width=0)
    for paint in (plot.temperature, plot.pipeline):
        with pytest.raises(ValueError, match=r"take one with logits\[i\]"):
            paint(np.zeros((2, 4), dtype="f4"))
    with pytest.raises(onedraw.ParamError, match="tempature"):
        plot.vary(row, "tempature", [1])
    with pytest.raises(onedraw.ParamError, match="top_p"):
        plot.vary(row, "top_p", [0.5, 1.5])
    with pytest.raises(ValueError, match="0 values of top_p; 1 to 16 fit a figure"):
        plot.vary(row, "top_p", [])
    with pytest.raises(ValueError, match="17 values"):
        plot.vary(row, "top_k", range(1, 18))
    with pytest.raises(TypeError, match="temperature is what varies"):
        plot.temperature(row, temperature=1)
    with pytest.raises(ValueError, match="top is the number of tokens"):
        plot.pipeline(row, top=0)


def test_without_matplotlib_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; import onedraw; import onedraw.plot"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stderr.strip().endswith("ImportError: onedraw.plot paints with matplotlib: install onedraw[plot]")


def test_examples_run() -> None:
    for module in (plot, _label):
        assert doctest.testmod(module).failed == 0
