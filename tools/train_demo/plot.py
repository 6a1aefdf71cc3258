"""A small SVG of a stage's recorded numbers: one panel a number, steps along x."""

WIDTH, HEIGHT, GAP = 300, 120, 34


def _panel(x0: float, y0: float, title: str, points: list[tuple[float, float]]) -> list[str]:
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    low, high = min(ys), max(ys)
    span, last = (high - low) or 1.0, max(xs) or 1
    line = " ".join(f"{x0 + x / last * WIDTH:.1f},{y0 + HEIGHT - (y - low) / span * HEIGHT:.1f}" for x, y in points)
    return [
        f'<rect x="{x0}" y="{y0}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>',
        f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="1.3"/>',
        f'<text x="{x0}" y="{y0 - 6}">{title}: {ys[-1]:.4g} after {int(last)} steps</text>',
        f'<text x="{x0 + WIDTH}" y="{y0 + 10}" text-anchor="end" fill="#777">{high:.3g}</text>',
        f'<text x="{x0 + WIDTH}" y="{y0 + HEIGHT - 3}" text-anchor="end" fill="#777">{low:.3g}</text>',
    ]


def losses(summary: dict) -> str:
    """SVG text for a summary as training.Run writes it."""
    names = []
    for row in summary["history"]:
        names += [k for k in row if k != "step" and k not in names]
    parts = []
    for i, name in enumerate(names):
        points = [(row["step"], row[name]) for row in summary["history"] if name in row]
        parts += _panel(GAP + (i % 2) * (WIDTH + GAP), GAP + (i // 2) * (HEIGHT + GAP), name, points)
    width, height = 2 * (WIDTH + GAP) + GAP, GAP + (len(names) + 1) // 2 * (HEIGHT + GAP)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([head, *parts, "</svg>", ""])
