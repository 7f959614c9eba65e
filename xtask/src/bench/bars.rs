//! What is asked of the product, beside what was measured.

use std::fmt::Write as _;

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    what: String,
    asked: String,
    measured: String,
    pub holds: bool,
}

impl Bar {
    pub fn at_most(what: &str, asked: f64, measured: f64) -> Self {
        Self::new(what, format!("at most {asked:.2}"), measured, measured <= asked)
    }

    pub fn at_least(what: &str, asked: f64, measured: f64) -> Self {
        Self::new(what, format!("at least {asked:.2}"), measured, measured >= asked)
    }

    fn new(what: &str, asked: String, measured: f64, holds: bool) -> Self {
        // What could not be measured does not hold.
        let holds = holds && measured.is_finite();
        Self { what: what.to_owned(), asked, measured: format!("{measured:.2}"), holds }
    }

    pub fn what(&self) -> &str {
        &self.what
    }
}

/// All of them as a Markdown table.
pub fn table(bars: &[Bar]) -> String {
    let mut out = String::from("| bar | asked | measured | |\n|---|---|---|---|\n");
    for Bar { what, asked, measured, holds } in bars {
        let verdict = if *holds { "holds" } else { "**does not hold**" };
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
        assert!(!Bar::at_most("x", 1.0, f64::NAN).holds && !Bar::at_least("x", 1.0, f64::INFINITY).holds);
    }
}
