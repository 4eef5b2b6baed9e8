# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Pictures as inline SVG. matplotlib draws in placeholder colours that become CSS variables of the page,
so that one picture is readable in light, dark and print. Labels are English: CJK fonts may be missing.
"""

from __future__ import annotations

import contextlib
import html
import io
import math
import re
from collections.abc import Iterator

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from . import show
from .curves import Curve

INK, FAINT, LIMIT = "#010101", "#010102", "#010103"
SIDE_COLOUR = {"torch": "#010104", "paddle": "#010105"}
VARIABLES = {
    INK: "var(--ink)",
    FAINT: "var(--line)",
    LIMIT: "var(--bad)",
    SIDE_COLOUR["torch"]: "var(--torch)",
    SIDE_COLOUR["paddle"]: "var(--paddle)",
}
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
}
AXIS_LABEL = {"iter": "iteration", "epoch": "epoch"}
# up to this many points each one gets a dot, so that a curve of one epoch can be seen at all
DOTTED = 40
MOST_DECADES = 6


@contextlib.contextmanager
def style(salt: str) -> Iterator[None]:
    """Our settings on matplotlib's defaults, whatever matplotlibrc says. `salt` keeps SVG ids apart."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | {"svg.hashsalt": salt})
        yield


def curve_figure(curve: Curve) -> Figure:
    """Both sides overlaid, torch broad and paddle a dashed line on top of it; their difference below."""
    figure = Figure(figsize=(4.2, 3.3))
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.4))
    figure.subplots_adjust(left=0.17, right=0.98, top=0.92, bottom=0.14, hspace=0.14)
    for side, (x, y) in curve.sides.items():
        look = {"lw": 3, "alpha": 0.6} if side == "torch" else {"lw": 1.3, "ls": (0, (4, 1.5))}
        top.plot(x, y, color=SIDE_COLOUR[side], label=side, marker=_marker(x), ms=5, **look)
    top.set_ylabel("value")
    top.legend(loc="upper left", bbox_to_anchor=(0, 1.14), ncols=2, borderaxespad=0, borderpad=0)
    x, difference = curve.difference()
    bottom.plot(x, difference, color=INK, lw=1, marker=_marker(x), ms=4)
    _from_zero(bottom, difference)
    bottom.set_ylabel("|difference|")
    bottom.set_xlabel(AXIS_LABEL[curve.axis])
    if curve.axis == "epoch":
        bottom.xaxis.get_major_locator().set_params(integer=True)
    return figure


def keys_figure(keys: list[dict]) -> Figure:
    """Difference of every key as a multiple of its limit; what is beyond all numbers is a cross at the top."""
    figure = Figure(figsize=(7.2, 2.6))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.1, right=0.99, top=0.89, bottom=0.18)
    ratios = [(x, show.to_float(key.get("worst"))) for x, key in enumerate(keys, 1)]
    fine = [point for point in ratios if point[1] <= 1]
    beyond = [point for point in ratios if point[1] > 1]
    lost = [x for x, ratio in ratios if ratio != ratio]
    axes.axhline(1, color=LIMIT, lw=1.2, ls="--", label="limit")
    for points, colour, label in ((fine, INK, "within"), (beyond, LIMIT, "beyond")):
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, ls="none", marker="o", ms=4, label=label)
    _from_zero(axes, [1, *(ratio for _, ratio in fine + beyond)])
    if lost:
        top = [axes.get_ylim()[1]] * len(lost)
        axes.plot(lost, top, color=LIMIT, ls="none", marker="x", mew=2, label="not comparable", clip_on=False)
    axes.set_xlim(0, len(keys) + 1)
    axes.set_xlabel("row in the table below")
    axes.set_ylabel("difference / limit")
    axes.legend(loc="upper left", bbox_to_anchor=(0, 1.14), ncols=4, borderaxespad=0, borderpad=0)
    return figure


def svg(figure: Figure, label: str) -> str:
    """The figure as an <svg> element without outer references. Call it inside the style it was made in."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    # names such as "axes_1" return in every figure, and an id must be the only one of its kind in a page
    used = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(show.plain(label))}"', 1)


def _marker(points: list) -> str | None:
    return "." if len(points) <= DOTTED else None


def _from_zero(axes: Axes, values: list[float]) -> None:
    """A logarithmic axis that still has a place for zero, where bit-exact results lie."""
    positive = [v for v in values if v > 0]
    if not positive:
        axes.set_ylim(0, 1)
        axes.set_yticks([0])
        return
    low, high = (math.floor(math.log10(v)) for v in (min(positive), max(positive)))
    axes.set_yscale("symlog", linthresh=10.0**low)
    axes.set_ylim(0, 2 * max(positive))
    stride = (high - low) // MOST_DECADES + 1
    axes.set_yticks([0, *(10.0**power for power in range(low, high + 1, stride))])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
