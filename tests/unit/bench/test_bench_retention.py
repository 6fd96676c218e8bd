"""What the bench says of a topic that empties itself: enough to see whether it holds more and more."""

from bench.retention import Run, Sample, longest_without_deletion_s, quarters


def run() -> Run:
    """Return 40 s at a hundred offsets a second, in which all but 500 go each second, save from 20 to 30."""
    made = Run(rate=100.0)
    for second in range(41):
        end = 1000 + 100 * second
        last = 20 if 20 <= second < 30 else second
        made.samples.append(Sample(float(second), 500 + 100 * last, end, float(end - 100 * last) / 100))
    return made


def test_bench_run_is_divided_into_four_quarters_in_order() -> None:
    samples = run().samples
    assert [each.at_s for quarter in quarters(samples) for each in quarter] == [each.at_s for each in samples]
    assert [len(quarter) for quarter in quarters(samples)] == [10, 10, 10, 11]


def test_longest_time_without_a_deletion_is_computed_from_samples() -> None:
    made = run()
    assert longest_without_deletion_s(made.samples) == 10.0
    assert longest_without_deletion_s([Sample(at, 0, 10, 0.0) for at in (1.0, 2.0, 9.0)]) == 8.0


def test_retained_intervals_are_reported_per_quarter_and_per_arrival_rate() -> None:
    made = run()
    assert made.held == 1400 / 500
    assert made.held_by_arrivals() == 1400 / 500
    said = str(made)
    assert "by quarter: held at most 1.00, 1.00, 2.80, 1.00 intervals, on disk at most 10, 10, 19, 10 MB" in said
    assert "longest without a deletion 10.0 s" in said


def test_burst_of_arrivals_does_not_count_as_retention_lag() -> None:
    """Five seconds of a burst hold three intervals of the mean rate, but one of the current rate of arrival."""
    arrived = [0] * 20 + [1000] * 10
    ends = [sum(arrived[: second + 1]) for second in range(30)]
    made = Run(rate=ends[-1] / 30)
    for second, end in enumerate(ends):
        made.samples.append(Sample(float(second), ends[second - 5] if second >= 5 else 0, end, 1.0))
    assert round(made.held, 6) == 3.0
    assert made.held_by_arrivals() == 1.0
