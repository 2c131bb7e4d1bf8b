"""A line through points, learned step by step."""


def train(points: list[tuple[float, float]], steps: int = 2000, rate: float = 0.05) -> tuple[float, float]:
    slope = start = 0.0
    for _ in range(steps):
        misses = [(x, slope * x + start - y) for x, y in points]
        slope -= rate * sum(x * miss for x, miss in misses) / len(points)
        start -= rate * sum(miss for _, miss in misses) / len(points)
    return slope, start
