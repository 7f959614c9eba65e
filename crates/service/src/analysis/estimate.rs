//! Estimates from a sample of the traces.

/// Converts a count of a sample into an estimate for all traces.
pub(crate) fn estimate(count: u64, fraction: f64) -> u64 {
    if fraction >= 1.0 || fraction <= 0.0 {
        return count;
    }
    // Counts stay far below the largest integer that an `f64` represents exactly.
    (count as f64 / fraction).round() as u64
}

/// Describes the error of estimates from a sample of this many traces: a number that rests on 100 traces may be off by 20 %,
/// on 400 by 10 %, which is twice the standard deviation of such a count.
pub(crate) fn sample_note(traces: u64, fraction: f64) -> String {
    let about = |traces| estimate(traces, fraction);
    format!(
        "the numbers are estimates from a sample of {traces} traces, one in {:.0}: 19 times out of 20, one near {} is right within \
         20 %, one near {} within 10 %",
        1.0 / fraction,
        about(100),
        about(400)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampled_counts_are_scaled_and_exact_counts_are_not() {
        assert_eq!(estimate(7, 1.0), 7);
        assert_eq!(estimate(7, 0.25), 28);
        assert_eq!(estimate(1, 0.3), 3);
        assert_eq!(estimate(0, 0.001), 0);
    }

    #[test]
    fn notes_state_the_error_of_a_sample() {
        let note = sample_note(8_920, 1.0 / 64.0);
        assert!(
            note.contains("a sample of 8920 traces, one in 64: 19 times out of 20, one near 6400 is"),
            "{note}"
        );
        assert!(note.ends_with("within 20 %, one near 25600 within 10 %"), "{note}");
    }
}
