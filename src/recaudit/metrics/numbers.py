"""How numbers are written: the same kind of number looks the same in a terminal, a table, a sentence and a chart."""

from __future__ import annotations

TIMES = "\N{MULTIPLICATION SIGN}"


def percent(value: float) -> str:
    """0.1234 as 12.3%; a share that is not zero never reads as zero, nor one below all as all."""
    if 0 < value < 0.0005:
        return "<0.1%"
    if 0.9995 <= value < 1:
        return ">99.9%"
    return minus(f"{100 * value:.1f}%")


def chance(value: float) -> str:
    """A probability, however small, as a percentage with three digits that count: 0.00745 as 0.745%."""
    if value in (0, 1):
        return f"{100 * value:g}%"
    if value < 1e-6:
        return "<0.0001%"
    return ">99.9%" if value >= 0.9995 else f"{100 * value:#.3g}%"


def times(value: float) -> str:
    """How many times likelier, with three digits that count."""
    text = f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:,.0f}"
    return f"{TIMES}{text}"


def signed_percent(value: float) -> str:
    """0.8512 as +85.1%, 0.0042 as +0.42%, 12.5 as +1,250%."""
    text = f"{100 * value:+,.{2 if abs(value) < 0.01 else 1 if abs(value) < 10 else 0}f}%"
    return minus(text) if text.strip("+-0.%") else "0%"


def minus(text: str) -> str:
    """With a true minus sign, and none before a zero."""
    if not text.startswith("-"):
        return text
    return text[1:] if not text.strip("-0.%") else "\N{MINUS SIGN}" + text[1:]


def bits(value: float) -> str:
    """An amount of surprise."""
    return f"{value:.2f} bits"
