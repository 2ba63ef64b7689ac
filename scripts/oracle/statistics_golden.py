#!/usr/bin/env python3
"""Writes golden values for results/analysis/statistics, computed by SciPy: statistics_golden.py FILE.json

Each record is a series of numbers and the results of SciPy, or of a few lines using it; a test reads the file without Python
(tests/results/analysis/oracle_test.cpp). Nothing here uses the C++ code: the outlier test and the drift are written from their
sources with SciPy's distributions, medians, slopes and rank correlations.
"""

import json
import sys

import numpy as np
import scipy
from scipy import stats

SEED = 20260301
FALSE_ALARM, NOTEWORTHY = 0.01, 0.02  # as documented in results/analysis/statistics.hpp
RESAMPLES = 20000


def trimmed(values, axis=-1):
    """Without minimum and maximum; the trimmed share is one value however it is rounded."""
    return stats.trim_mean(values, 1.5 / np.shape(values)[axis], axis=axis)


def estimate(values):
    n = len(values)
    if n < 10:
        low, high = stats.t.interval(0.95, n - 1, loc=np.mean(values), scale=stats.sem(values))
        return {"value": np.mean(values), "low": low, "high": high}
    found = stats.bootstrap((values,), trimmed, method="percentile", n_resamples=RESAMPLES, vectorized=True,
                            rng=np.random.default_rng(SEED))
    low, high = found.confidence_interval
    return {"value": trimmed(values), "low": low, "high": high, "bootstrap_sd": found.standard_error}


def outliers(values):
    """Rosner (1983): deviates R_i against critical values lambda_i; Grubbs (1969) if at most one value is an outlier."""
    left, removed, found = list(range(len(values))), [], 0
    for _ in range(max(1, len(values) // 4)):
        n = len(left)
        if n < 3:
            break
        x = values[left]
        spread = np.std(x, ddof=1)
        if spread == 0:
            break
        far = left[int(np.argmax(np.abs(x - x.mean())))]
        t = stats.t.ppf(1 - FALSE_ALARM / (2 * n), n - 2)
        critical = (n - 1) * t / np.sqrt((n - 2 + t * t) * n)
        removed.append(far)
        left.remove(far)
        if abs(values[far] - x.mean()) / spread > critical:
            found = len(removed)
    others = np.delete(values, removed[:found]).mean()
    return sorted(i for i in removed[:found] if abs(values[i] - others) > NOTEWORTHY * abs(others))


def drift(values):
    n = len(values)
    count = min(n, 10)
    stretches = [np.median(values[i * n // count:(i + 1) * n // count]) for i in range(count)]
    change = stats.theilslopes(stretches)[0] * (count - 1) / np.median(stretches)
    probability = stats.kendalltau(range(count), stretches, method="exact").pvalue
    return change if abs(change) > NOTEWORTHY and probability < FALSE_ALARM else None


def is_steady(values, window):
    for count in range(5, len(values)):
        latest = values[-count:]
        if sum(latest) >= window / 2:
            line = stats.linregress(range(count), latest)
            steps = max(count - 1, window / np.mean(latest))
            return bool(abs(line.slope) <= 2 * line.stderr or abs(line.slope) * steps <= 0.01 * np.mean(latest))
    return False


def records():
    rng = np.random.default_rng(SEED)
    normal = lambda n, mean=40, sd=1: mean + sd * rng.standard_normal(n)  # noqa: E731

    def disturbed(n, *changes):
        values = normal(n)
        for place, factor in changes:
            values[place] *= factor
        return values

    for n in list(range(3, 13)) + [15, 30]:
        for values in (normal(n), rng.lognormal(3, 0.3, n)):
            yield "estimate", values, estimate(values)
    for n in (1, 2, 3, 7, 20):
        values, q = normal(n), [0, 0.025, 0.1, 0.5, 0.9, 0.975, 0.99, 1]
        yield "quantile", values, {"q": q, "value": stats.mstats.mquantiles(values, q, alphap=1, betap=1).tolist()}
    for n in (3, 4, 5, 10, 40):
        values = normal(n) + 0.1 * np.arange(n)
        line = stats.linregress(range(n), values)
        yield "slope", values, {"slope": line.slope, "error": line.stderr, "robust": stats.theilslopes(values)[0]}
    for n in range(2, 13):
        for trend in (0, 0.3, 2):
            values = normal(n) + trend * np.arange(n)
            yield "trend", values, {"probability": stats.kendalltau(range(n), values, method="exact").pvalue}
    for freedom in list(range(1, 13)) + [25, 100]:
        t = np.array([0, 0.1, 1, 2.5, 6, 40, 1000])
        yield "tail", t, {"freedom": freedom, "probability": (2 * stats.t.sf(t, freedom)).tolist()}
    for n in (3, 4, 5, 6, 8, 9, 10, 12, 20):
        series = [normal(n), disturbed(n, (n // 2, 0.8)), disturbed(n, (0, 3)), normal(n, 40, 0.01),
                  disturbed(n, (0, 0.5), (n - 1, 0.52)), np.repeat(40.0, n), rng.standard_cauchy(n) + 40]
        narrow = normal(n, 40, 0.01)
        narrow[n - 1] *= 1.015  # significant, but too small to be flagged
        for values in series + [narrow, np.append(normal(n - 1, 40, 0.001), 30)]:
            yield "outliers", values, {"index": outliers(values)}
    for n in (5, 6, 9, 10, 11, 60, 333):
        for change, sd in ((0, 0.5), (0.3, 0.5), (-0.3, 0.1), (0.015, 0.001), (0.03, 0.001), (-0.05, 1)):
            values = normal(n, 40, sd) * (1 + change * np.arange(n) / (n - 1))
            yield "drift", values, {"change": drift(values)}
    for n in (5, 6, 7, 12, 40, 200):
        for change, sd in ((0, 0.5), (0.3, 0.5), (-0.1, 0.1), (0.005, 0)):
            values = normal(n, 40, sd) * (1 + change * np.arange(n) / (n - 1))
            for window in (100, 500, 1600):
                yield "steady", values, {"window": window, "steady": is_steady(values, window)}


def main():
    found = [{"what": what, "values": np.asarray(values, float).tolist(), **expected} for what, values, expected in records()]
    lines = ",\n".join(json.dumps(record) for record in found)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(f'{{"by": "SciPy {scipy.__version__}", "records": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
