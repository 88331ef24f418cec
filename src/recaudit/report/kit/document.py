"""What every page stands on: the templates, the one script, and what a browser may do with them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from recaudit.metrics.numbers import chance, percent, times
from recaudit.report.kit.charts import OTHERS, THEME, Figure
from recaudit.report.kit.numbers import count, duration, listing, plural, settings_line


def rendered(template: str, **content: Any) -> str:
    """Render a page: with the style, the script and the theme of all pages.

    Args:
        template: A template of recaudit, or `PACKAGE:FILE`, a file in the folder `templates` of another package.
        **content: What the template names.
    """
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # What the browser may do: run this very script and no other, and load nothing from anywhere. A chart that is saved
    # as PNG is painted from an image in a data address.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    shared = {"style": Markup(_file("style.css")), "script": Markup(script), "content_policy": policy}
    return _environment().get_template(template).render(theme=THEME, others=OTHERS, **shared, **content)


def fragment(template: str, **content: Any) -> str:
    """A piece of somebody else's page, a notebook's: no script, and colours that follow the text around it."""
    return _environment().get_template(template).render(style=Markup(_file("card.css")), **content)


def drawing(figure: Figure, width: int = 560) -> Markup:
    """A chart as SVG, drawn beforehand: it keeps the names of its colours, for a style sheet around it to fill in."""
    made = vl_convert.vegalite_to_svg({**figure.spec, "width": width}, config=THEME)
    # Tooltips need a script. What is said of a chart is said once, by the element around it.
    return Markup(re.sub(r' (?:aria-[\w-]+|role)="[^"]*"', "", made))


def picture(figure: Figure, width: int = 480) -> bytes:
    """A chart as PNG, in the page's light colours, for where no script runs."""
    spec = {**figure.spec, "width": width, "background": "var(--paper)"}
    colored = re.sub(
        r"var\((--[\w-]+)\)", lambda found: _light()[found[1]], json.dumps({"spec": spec, "config": THEME})
    )
    drawn = json.loads(colored)
    made: bytes = vl_convert.vegalite_to_png(drawn["spec"], config=drawn["config"], scale=1.25)
    return made


@cache
def _light() -> dict[str, str]:
    """The colours of the style sheet, by name."""
    first, _, _ = _file("style.css").partition("}")
    return dict(re.findall(r"(--[\w-]+): ([^;]+);", first))


def script_json(value: object) -> Markup:
    """JSON that may stand inside a script element: no text in it can end the element or open a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment


def _template(name: str) -> str:
    """Return the source of a template by its name, see `rendered`."""
    package, _, file = name.rpartition(":")
    return (resources.files(package or "recaudit.report") / "templates" / file).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """Vega, Vega-Lite and Vega-Embed, from the package that carries them, with the lines that use them."""
    return str(vl_convert.javascript_bundle(_file("downloads.js") + _file("charts.js")))


def _file(name: str) -> str:
    return (resources.files("recaudit.report") / "templates" / name).read_text(encoding="utf-8")


def _moment(iso: str) -> str:
    """A moment as a person reads it: 5 March 2025, 14:02 UTC."""
    moment = datetime.fromisoformat(iso)
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".rstrip()


def _split(config: Mapping[str, Any]) -> str:
    """How ratings were held out, from a configuration as it was written."""
    kind, *settings = {"kind": "random", **config.get("split", {})}.items()
    return ", ".join([str(kind[1]).replace("-", " "), *(f"{name} {value}" for name, value in settings)])


def _unbroken(text: str) -> str:
    """The text with intervals that stay on one line."""
    return re.sub(r"\[[^\[\]]*\]", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


_NAMED = (chance, count, duration, listing, percent, plural, script_json, times, _moment, _split, _unbroken)
FILTERS: Mapping[str, Callable[..., Any]] = {
    **{function.__name__.lstrip("_"): function for function in _NAMED},
    "settings": settings_line,
    "pretty_json": lambda value: json.dumps(value, indent=2, ensure_ascii=False, default=str),
}
"""What templates can do with a value."""
