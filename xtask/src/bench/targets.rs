//! Performance targets, compared with the measured figures.

use std::fmt::Write as _;

/// A performance target with its measured figure.
#[derive(Debug, Clone)]
pub struct Target {
    what: String,
    required: String,
    measured: String,
    pub is_met: bool,
}

impl Target {
    pub fn at_most(what: &str, required: f64, measured: f64) -> Self {
        Self::new(what, format!("at most {}", number(required)), measured, measured <= required)
    }

    pub fn at_least(what: &str, required: f64, measured: f64) -> Self {
        Self::new(what, format!("at least {}", number(required)), measured, measured >= required)
    }

    fn new(what: &str, required: String, measured: f64, is_met: bool) -> Self {
        // A figure that could not be measured misses its target.
        let is_met = is_met && measured.is_finite();
        Self { what: what.to_owned(), required, measured: number(measured), is_met }
    }

    pub fn what(&self) -> &str {
        &self.what
    }
}

fn number(value: f64) -> String {
    match value {
        value if !value.is_finite() => "not measured".to_owned(),
        value if value.fract() == 0.0 && value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}

/// Formats the targets as a Markdown table.
pub fn table(targets: &[Target]) -> String {
    let mut out = String::from("| target | required | measured | |\n|---|---|---|---|\n");
    for Target { what, required, measured, is_met } in targets {
        let verdict = if *is_met { "met" } else { "**missed**" };
        let _ = writeln!(out, "| {what} | {required} | {measured} | {verdict} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_on_its_own_side_only() {
        assert!(Target::at_most("x", 1.2, 1.2).is_met && !Target::at_most("x", 1.2, 1.21).is_met);
        assert!(Target::at_least("x", 3.0, 3.0).is_met && !Target::at_least("x", 3.0, 2.99).is_met);
        let text = table(&[Target::at_least("pages", 1000.0, f64::NAN), Target::at_most("times", 1.5, 1.25)]);
        assert!(text.contains("| pages | at least 1000 | not measured | **missed** |"), "{text}");
        assert!(text.contains("| times | at most 1.50 | 1.25 | met |"), "{text}");
        assert!(
            !Target::at_most("x", 1.0, f64::NAN).is_met && !Target::at_least("x", 1.0, f64::INFINITY).is_met
        );
    }
}
