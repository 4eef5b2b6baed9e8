# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The HTML page: everything in one file, nothing loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.align.paths import SIDES

from . import curves as training
from . import facts, show
from .inputs import Inputs
from .markup import Markup, filtered_table, source, state, table, tag
from .texts import Texts

# A second lock on "opens offline": the browser itself refuses whatever would be loaded.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
# from this many keys on a picture shows more than the table
PICTURED = 6
# heading of a column in a part's table of arrays: (field of the record, class of the cells)
KEY_COLUMNS = {
    "key": ("key", "name"),
    "verdict": ("passed", ""),
    "reason": ("reason", "long"),
    "known_rule": ("known", "name"),
    "mean": ("mean", "number"),
    "threshold": ("threshold", "number"),
    "max": ("max", "number"),
    "rel": ("rel", "number"),
    "worst_ratio": ("worst", "number"),
    "ulp": ("ulp", "number"),
    "scale": ("scale", "number"),
    "index": ("index", ""),
    "shape": ("shape", ""),
    "dtype": ("dtype", ""),
}


def page(found: Inputs, t: Texts) -> str:
    """The whole page as text."""
    sections = {
        "verdicts": _verdicts(found, t),
        "fresh": _stale(found, t),
        "differences": _parts(found, t, initialisation=False),
        "conversion": _conversion(found, t),
        "curves": _training(found, t),
        "lr": _learning_rate(found, t),
        "init": _parts(found, t, initialisation=True),
        "known": _known(found, t),
        "environment": _environment(found, t),
    }
    links = tag("nav", *[tag("a", t[name], href=f"#{name}") for name in sections])
    main = [tag("section", tag("h2", t[name]), *blocks, id=name) for name, blocks in sections.items()]
    here = Path(__file__).parent
    style, script = ((here / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    head = tag(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("title", " · ".join(filter(None, (found.title or found.model, t["report"])))),
        tag("style", Markup(style)),
    )
    body = tag("body", _header(found, t), links, tag("main", *main), tag("script", Markup(script)))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang=t['html_lang'])}\n"


def _header(found: Inputs, t: Texts) -> Markup:
    green = sum(node["state"] == "green" for node in found.nodes)
    told = [t["green_count"].format(green=green, nodes=len(found.nodes))]
    told += [f"{t['model']}: {found.model}"] if found.model else []
    told += [f"{t['made']}: {found.made}"] if found.made else []
    title = tag("h1", found.title or found.model or t["report"])
    line = tag("div", " · ".join(told))
    return tag("header", tag("div", t["report"], class_="soft"), title, line, *_absent(found, t, "port.yaml"))


def _absent(found: Inputs, t: Texts, *files: str) -> list[Markup]:
    """One line for each of the files that is missing or broken."""
    texts = [facts.problem_text(found, file, t) for file in files]
    return [tag("p", text, class_="soft") for text in texts if text]


def _verdicts(found: Inputs, t: Texts) -> list[Markup]:
    kinds = ("", "", "number", "number", "number")
    columns = [(t[name], kind) for name, kind in zip(facts.VERDICT_COLUMNS, kinds, strict=True)]
    rows, reasons = [], []
    for node in found.nodes:
        row = facts.verdict_row(node, t)
        row[1] = state(node["state"], row[1])
        rows.append(row)
        if node["state"] != "green":
            reasons += _reasons(node)
    why = [tag("h3", t["why"]), tag("ul", *reasons)] if reasons else []
    return [*_absent(found, t, "verdicts.json"), table(columns, rows), *why]


def _reasons(node: dict) -> list[Markup]:
    """Why a node is not green: its own reason, and below it those of its parts."""
    failed = [part for part in node["parts"] if show.state(part) != "green"]
    if not (node.get("reason") or failed):
        return []
    inner = [tag("li", tag("code", part.get("name")), ": ", part.get("reason")) for part in failed]
    below = tag("ul", *inner) if inner else ""
    return [tag("li", tag("strong", node.get("node")), ": ", node.get("reason") or "", below)]


def _stale(found: Inputs, t: Texts) -> list[Markup]:
    stale = [node for node in found.nodes if node["state"] == "stale"]
    if stale:
        return [tag("ul", *[tag("li", tag("strong", n.get("node")), ": ", n.get("reason")) for n in stale])]
    return _absent(found, t, "verdicts.json") or [tag("p", t["no_stale"])]


def _parts(found: Inputs, t: Texts, initialisation: bool) -> list[Markup]:
    """The parts with initialisation statistics, or all others."""
    pairs = [(node, part) for node in found.nodes for part in node["parts"]]
    chosen = [pair for pair in pairs if (pair[1].get("name") == "init") == initialisation]
    prefix = "init" if initialisation else "part"
    shown = [_part(node, part, f"{prefix}{i}", t) for i, (node, part) in enumerate(chosen)]
    return shown or [tag("p", t["no_init" if initialisation else "no_parts"])]


def _part(node: dict, part: dict, identity: str, t: Texts) -> Markup:
    """One part, folded unless it failed: a picture when it has many keys, and every key as a row."""
    keys = part["keys"]
    name = show.plain(part.get("name"))
    strong = tag("strong", f"{show.plain(node.get('node'))} · {name} ")
    title = t.get(f"part.{name}", "") + " "
    told = tag("span", " ", facts.part_text(keys, t), class_="soft")
    summary = tag("summary", strong, title, _pill(part, t), told)
    reason = [tag("p", part["reason"])] if part.get("reason") else []
    picture = [_keys_picture(keys, identity, t)] if len(keys) >= PICTURED else []
    rows = [_keys_table(keys, identity, t)] if keys else []
    opened = {} if show.state(part) == "green" else {"open": ""}
    return tag("details", summary, *reason, *picture, *rows, **opened)


def _keys_table(keys: list[dict], identity: str, t: Texts) -> Markup:
    """One row per array. Reasons and known differences get a column only where one of them is told."""
    rows = [{name: key.get(field) for name, (field, _) in KEY_COLUMNS.items()} for key in keys]
    for row, key in zip(rows, keys, strict=True):
        row |= {"verdict": _pill(key, t), "index": show.words(row["index"]), "shape": show.shape(row["shape"])}
        row |= {name: row[name] or "" for name in ("reason", "known_rule")}
    names = [n for n in KEY_COLUMNS if n not in ("reason", "known_rule") or any(row[n] for row in rows)]
    columns = [(t[name], KEY_COLUMNS[name][1]) for name in names]
    return filtered_table(identity, columns, [[row[name] for name in names] for row in rows], t["filter"])


def _pill(item: dict, t: Texts) -> Markup:
    kind = show.state(item)
    return state(kind, facts.state_word(kind, t))


def _plots() -> Any:
    """The plotting module, or None without matplotlib: the numbers are worth a page of their own."""
    try:
        from . import plots
    except ImportError:
        return None
    return plots


def _keys_picture(keys: list[dict], identity: str, t: Texts) -> Markup:
    plots = _plots()
    if plots is None:
        return tag("p", t["no_pictures"], class_="soft")
    with plots.style(identity):
        picture = Markup(plots.svg(plots.keys_figure(keys), t["keys_picture"]))
    return tag("figure", tag("figcaption", t["keys_picture"]), tag("div", picture, class_="wide"))


def _curve_pictures(shown: list[training.Curve], t: Texts) -> Markup:
    plots = _plots()
    if plots is None:
        return tag("p", t["no_pictures"], class_="soft")
    figures = []
    for curve in shown:
        with plots.style(f"curve {curve.name!a}"):
            picture = Markup(plots.svg(plots.curve_figure(curve), t["curve_picture"].format(name=curve.name)))
        figures.append(tag("figure", tag("figcaption", curve.name), picture))
    return tag("div", *figures, class_="figures")


def _conversion(found: Inputs, t: Texts) -> list[Markup]:
    if found.conversion is None:
        return _absent(found, t, "conversion.json")
    columns = [(t["torch_name"], "name"), (t["torch_shape"], ""), (t["op"], ""), (t["paddle_name"], "name")]
    columns += [(t["paddle_shape"], ""), (t["rule"], ""), (t["kind"], "")]
    rows = [
        [facts.tensor(row, "torch"), show.shape(row.get("torch_shape")), row.get("op")]
        + [facts.tensor(row, "paddle"), show.shape(row.get("paddle_shape")), row.get("rule"), row.get("kind")]
        for row in found.conversion["rows"]
    ]
    count = tag("p", facts.conversion_count(found.conversion, t))
    blocks = [count, filtered_table("weights", columns, rows, t["filter"])]
    dropped = [
        [*(show.words(row.get(side)) for side in SIDES), row.get("kind"), row.get("reason")]
        for row in found.conversion["dropped"]
    ]
    if dropped:
        columns = [*((side, "name") for side in SIDES), (t["kind"], ""), (t["reason"], "long")]
        blocks += [tag("h3", t["dropped"]), table(columns, dropped)]
    return blocks


def _training(found: Inputs, t: Texts) -> list[Markup]:
    absent = _absent(found, t, *(f"train_{side}.json" for side in SIDES))
    shown = [curve for curve in training.curves(found.histories) if curve.name != "lr"]
    if not shown:
        return absent or [tag("p", t["no_curves"])]
    order = facts.order_text(training.data_order(found.histories), t)
    return [*absent, *_curves(shown, t), *([tag("p", order)] if order else [])]


def _learning_rate(found: Inputs, t: Texts) -> list[Markup]:
    shown = [curve for curve in training.curves(found.histories) if curve.name == "lr"]
    return _curves(shown, t) if shown else [tag("p", t["no_lr"])]


def _curves(shown: list[training.Curve], t: Texts) -> list[Markup]:
    kinds = ("", "number", "number", "number", "number", "number", "")
    columns = [(t[name], kind) for name, kind in zip(facts.CURVE_COLUMNS, kinds, strict=True)]
    return [_curve_pictures(shown, t), table(columns, [facts.curve_row(curve, t) for curve in shown])]


def _known(found: Inputs, t: Texts) -> list[Markup]:
    columns = [(t["id"], "name"), *[(t[name], "long") for name in (*facts.RULE[1:], "verified")]]
    rows = []
    for entry, places in facts.known_entries(found):
        formula = tag("code", entry.get("formula"))
        verified = tag("details", tag("summary", len(places)), ", ".join(places))
        rows.append([entry.get("id"), entry.get("title"), formula, source(entry.get("source")), verified])
    return [table(columns, rows)] if rows else [tag("p", t["no_known"])]


def _environment(found: Inputs, t: Texts) -> list[Markup]:
    absent = _absent(found, t, *(f"environment_{side}.json" for side in SIDES))
    if not found.environments:
        return absent
    columns = [(t["what"], ""), *[(side, "long") for side in SIDES], ("", "")]
    rows = [[*row, t["sides_differ"] if differs else ""] for row, differs in facts.environment_rows(found)]
    return [*absent, table(columns, rows)]
