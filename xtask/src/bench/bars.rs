//! Performance targets, compared with the measured figures.

use std::fmt::Write as _;

/// A performance target with its measured figure.
#[derive(Debug, Clone)]
pub struct Bar {
    what: String,
    asked: String,
    measured: String,
    pub holds: bool,
}

impl Bar {
    pub fn at_most(what: &str, asked: f64, measured: f64) -> Self {
        Self::new(what, format!("at most {}", number(asked)), measured, measured <= asked)
    }

    pub fn at_least(what: &str, asked: f64, measured: f64) -> Self {
        Self::new(what, format!("at least {}", number(asked)), measured, measured >= asked)
    }

    fn new(what: &str, asked: String, measured: f64, holds: bool) -> Self {
        // A figure that could not be measured misses its target.
        let holds = holds && measured.is_finite();
        Self { what: what.to_owned(), asked, measured: number(measured), holds }
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
pub fn table(bars: &[Bar]) -> String {
    let mut out = String::from("| target | required | measured | |\n|---|---|---|---|\n");
    for Bar { what, asked, measured, holds } in bars {
        let verdict = if *holds { "met" } else { "**missed**" };
        let _ = writeln!(out, "| {what} | {asked} | {measured} | {verdict} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_holds_on_its_own_side_only() {
        assert!(Bar::at_most("x", 1.2, 1.2).holds && !Bar::at_most("x", 1.2, 1.21).holds);
        assert!(Bar::at_least("x", 3.0, 3.0).holds && !Bar::at_least("x", 3.0, 2.99).holds);
        let text = table(&[Bar::at_least("pages", 1000.0, f64::NAN), Bar::at_most("times", 1.5, 1.25)]);
        assert!(text.contains("| pages | at least 1000 | not measured | **missed** |"), "{text}");
        assert!(text.contains("| times | at most 1.50 | 1.25 | met |"), "{text}");
        assert!(!Bar::at_most("x", 1.0, f64::NAN).holds && !Bar::at_least("x", 1.0, f64::INFINITY).holds);
    }
}
