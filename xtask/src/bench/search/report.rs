//! Figures as tables for people.

use std::fmt::Write as _;

use super::cells::{Figures, Measured, geometric_mean};

/// One cell in a line, for somebody who waits.
pub fn line(measured: &Measured) -> String {
    let shapes: Vec<String> = measured.shapes.iter().map(|figures| time(figures.milliseconds)).collect();
    format!(
        "{:<26} by hand {:>20} ms, service {:>7} ms in {} statements: {:.2} times faster",
        measured.cell.name(),
        shapes.join(" / "),
        time(measured.service.milliseconds),
        measured.statements,
        measured.gain()
    )
}

/// All cells as a Markdown table.
pub fn cells(measured: &[Measured]) -> String {
    let mut out = String::from(
        "| policy, condition | traces | naive, ms | pre, ms | semi, ms | service, ms | statements | times faster \
         | rows read by hand | by the service | MB read by hand | by the service |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for one in measured {
        let (best, by_hand) = one.by_hand();
        let shape = |name: &str, figures: &Figures| {
            let text = time(figures.milliseconds);
            if name == best { format!("**{text}**") } else { text }
        };
        let shapes: Vec<String> = super::questions::SHAPES
            .iter()
            .zip(&one.shapes)
            .map(|(name, figures)| shape(name, figures))
            .collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {:.2} | {} | {} | {} | {} |",
            one.cell.name(),
            one.found,
            shapes.join(" | "),
            time(one.service.milliseconds),
            one.statements,
            one.gain(),
            grouped(by_hand.rows),
            grouped(one.service.rows),
            megabytes(by_hand.bytes),
            megabytes(one.service.bytes)
        );
    }
    if let Some(worst) = measured.iter().min_by(|one, other| one.gain().total_cmp(&other.gain())) {
        let _ = writeln!(
            out,
            "\nGeometric mean: {:.2} times faster than the quickest of the three by hand. Worst: {}, {:.2} times.",
            geometric_mean(measured.iter().map(Measured::gain)),
            worst.cell.name(),
            worst.gain()
        );
    }
    out
}

/// Milliseconds, with as many digits as say something.
pub fn time(milliseconds: f64) -> String {
    if milliseconds < 20.0 { format!("{milliseconds:.1}") } else { grouped(milliseconds.round() as u64) }
}

fn megabytes(bytes: u64) -> String {
    let megabytes = bytes as f64 / 1e6;
    if megabytes < 20.0 { format!("{megabytes:.1}") } else { grouped(megabytes.round() as u64) }
}

/// A number with commas between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(20_000_000), "20,000,000");
        assert_eq!(time(4.26), "4.3");
        assert_eq!(time(3_264.4), "3,264");
    }
}
