"""The figures of a comparison, drawn without a display; each has its counterpart in a paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentforge.core.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[["Axes", Mapping[str, Any]], bool]
"""Draws into the axes; False where the figures hold nothing to draw."""


def figures_of(comparison: Mapping[str, Any]) -> dict[str, Figure]:
    """Every figure that the comparison fills, by file stem. Raises `ConfigError` without matplotlib."""
    drawn = {name: _figure(draw, comparison) for name, draw in DRAWINGS.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def _figure(draw: Draw, comparison: Mapping[str, Any]) -> Figure | None:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ConfigError(
            "figures need matplotlib, which is not installed",
            hint="install the extra: agentforge-repair[evaluation]",
        ) from None
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    return figure if draw(figure.add_subplot(), comparison) else None


def _rates(axes: Axes, comparison: Mapping[str, Any]) -> bool:
    runs = comparison["runs"]
    rates = [100 * data["pass_rate"] for data in runs.values()]
    bounds = [[100 * bound for bound in data["ci95_boot_problem"]] for data in runs.values()]
    below = [max(0.0, rate - low) for rate, (low, _) in zip(rates, bounds, strict=True)]
    above = [max(0.0, high - rate) for rate, (_, high) in zip(rates, bounds, strict=True)]
    axes.bar(list(runs), rates, yerr=[below, above], capsize=4, color="#3b6ea5")
    axes.set_ylabel("pass rate, % (95% bootstrap interval)")
    axes.set_ylim(0, 105)
    axes.tick_params(axis="x", rotation=20)
    return True


def _retries(axes: Axes, comparison: Mapping[str, Any]) -> bool:
    curves = {run: data["cumulative_pass_by_retries"] for run, data in comparison["runs"].items()}
    if max(len(curve) for curve in curves.values()) < 2:
        return False
    for run, curve in curves.items():
        steps = [int(step) for step in curve]
        rates = [100 * rate for rate in curve.values()]
        spread = [100 * sd for sd in comparison["runs"][run]["cumulative_pass_sd"].values()]
        axes.plot(steps, rates, marker="o", label=run)
        axes.fill_between(
            steps,
            [rate - sd for rate, sd in zip(rates, spread, strict=True)],
            [rate + sd for rate, sd in zip(rates, spread, strict=True)],
            alpha=0.15,
        )
    axes.set_xlabel("retries used")
    axes.set_ylabel("cumulative pass rate, % (± 1 sd over trials)")
    axes.set_xticks(range(max(len(curve) for curve in curves.values())))
    axes.legend()
    return True


def _pass_at_k(axes: Axes, comparison: Mapping[str, Any]) -> bool:
    curves = {run: data["pass_at_k"] for run, data in comparison["runs"].items()}
    most = max(len(curve) for curve in curves.values())
    for run, curve in curves.items():
        axes.plot([int(k) for k in curve], [100 * rate for rate in curve.values()], marker="o", label=run)
    axes.set_xlabel("k")
    axes.set_ylabel("pass@k, %")
    axes.set_xticks(range(1, most + 1))
    axes.legend()
    return most > 1


def _groups(key: str) -> Draw:
    def draw(axes: Axes, comparison: Mapping[str, Any]) -> bool:
        tables = comparison[key]
        names = sorted({name for table in tables.values() for name in table})
        if not names:
            return False
        width = 0.8 / len(tables)
        for index, (run, table) in enumerate(tables.items()):
            places = [i + (index - (len(tables) - 1) / 2) * width for i in range(len(names))]
            rates = [100 * table[name]["pass_rate"] if name in table else 0.0 for name in names]
            axes.bar(places, rates, width, label=run)
        axes.set_xticks(range(len(names)), names, rotation=20)
        axes.set_ylabel("pass rate, %")
        axes.legend()
        return True

    return draw


def _cost(axes: Axes, comparison: Mapping[str, Any]) -> bool:
    for run, data in comparison["runs"].items():
        axes.scatter([data["wallclock_mean"]], [100 * data["pass_rate"]], s=60, label=run)
        axes.annotate(run, (data["wallclock_mean"], 100 * data["pass_rate"]), xytext=(6, 4),
                      textcoords="offset points")  # fmt: skip
    axes.set_xlabel("mean seconds a trial")
    axes.set_ylabel("pass rate, %")
    return True


def _errors(axes: Axes, comparison: Mapping[str, Any]) -> bool:
    runs = comparison["runs"]
    classes = sorted({name for data in runs.values() for name in data["error_class_share_of_failed"]})
    bottom = [0.0] * len(runs)
    for name in classes:
        shares = [100 * data["error_class_share_of_failed"].get(name, 0.0) for data in runs.values()]
        axes.bar(list(runs), shares, bottom=bottom, label=name)
        bottom = [low + share for low, share in zip(bottom, shares, strict=True)]
    axes.set_ylabel("share of the failed trials, %")
    axes.tick_params(axis="x", rotation=20)
    if classes:
        axes.legend()
    return bool(classes)


def _specialists(axes: Axes, comparison: Mapping[str, Any]) -> bool:
    told = {
        run: data["specialist_frequency"]
        for run, data in comparison["runs"].items()
        if "specialist_frequency" in data
    }
    names = sorted({name for table in told.values() for name in table})
    for run, table in told.items():
        axes.plot([100 * table.get(name, 0.0) for name in names], names, "o", label=run)
    axes.set_xlabel("in the team, % of trials")
    if told:
        axes.legend()
    return bool(told)


DRAWINGS: Mapping[str, Draw] = {
    "pass_rate": _rates,  # AgentForge, Figures 5 and 6; ExecuGraph, Figure 3
    "retries": _retries,  # AgentForge, Figure 4 left; ExecuGraph, Figure 5
    "pass_at_k": _pass_at_k,  # AgentForge, Figure 4 centre
    "by_repository": _groups("by_repository"),  # AgentForge, resolve rate by repository
    "by_category": _groups("by_category"),  # ExecuGraph, by category; MARS, Figure 3
    "cost": _cost,  # AgentForge, Figure 4 right; ExecuGraph, Figure 4
    "errors": _errors,  # ExecuGraph, error taxonomy
    "specialists": _specialists,  # MARS, Figure 2
}
