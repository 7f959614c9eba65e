//! Explanations of surviving mutants. `data/mutants/AREA.txt` lists their names, followed by an indented reason why no test can
//! detect them or why they change nothing. Names are those of cargo-mutants without line and column. A name is repeated for each
//! survivor.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use anyhow::{Context, Result};

use super::areas::Area;
use crate::workspace;

/// Number of explained survivors by name.
pub(super) struct Explanations(BTreeMap<String, usize>);

impl Explanations {
    pub(super) fn of(area: Area) -> Result<Self> {
        let path = workspace::root().join("xtask/data/mutants").join(format!("{}.txt", area.name()));
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Self::parse(&text).with_context(|| format!("`{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let (mut names, mut unexplained) = (BTreeMap::new(), None);
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if line.starts_with(' ') {
                unexplained = None;
            } else {
                *names.entry(line.trim_end().to_owned()).or_insert(0) += 1;
                unexplained = Some(line);
            }
        }
        match unexplained {
            Some(name) => anyhow::bail!("there is no reason below `{name}`"),
            None => Ok(Self(names)),
        }
    }
}

/// Outcomes of mutants, by name with line and column.
#[derive(Default)]
pub(super) struct Outcomes {
    /// All mutants of cargo-mutants' list.
    pub(super) listed: Vec<String>,
    /// Settled mutants of this and earlier runs, with cargo-mutants' outcome.
    pub(super) finished: Vec<(String, &'static str)>,
    /// Survivors of this run.
    pub(super) survived: Vec<String>,
}

impl Outcomes {
    /// Returns the survivors without explanation and the explanations without survivor. An explanation may also refer to a mutant
    /// that was not tested.
    pub(super) fn compared(&self, explanations: &Explanations) -> Vec<String> {
        let (listed, survived) = (counted(&self.listed), counted(&self.survived));
        let finished = counted(self.finished.iter().map(|(mutant, _)| mutant));
        let of = |names: &BTreeMap<String, usize>, name: &str| names.get(name).copied().unwrap_or(0);
        let mut faults = Vec::new();
        for (name, survivors) in &survived {
            if *survivors > of(&explanations.0, name) {
                let unexplained_mutants =
                    self.survived.iter().filter(|mutant| without_position(mutant) == *name);
                faults.extend(
                    unexplained_mutants.map(|mutant| format!("survived, and is not explained: {mutant}")),
                );
            }
        }
        for (name, explained) in &explanations.0 {
            if explained + of(&finished, name) > of(&listed, name) {
                faults.push(format!("explained, and does not survive: {name}"));
            }
        }
        faults
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |kind| self.finished.iter().filter(|(_, finished)| *finished == kind).count();
        let (survived, finished) = (self.survived.len(), self.finished.len());
        write!(
            out,
            "{} of {} mutants tried; {} caught, {} took too long, {} unviable, {survived} survived",
            finished + survived,
            self.listed.len(),
            of("caught"),
            of("timeout"),
            of("unviable"),
        )
    }
}

fn counted<'a>(mutants: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for mutant in mutants {
        *counted.entry(without_position(mutant)).or_insert(0) += 1;
    }
    counted
}

/// Removes line and column from `file:line:column: what`, so that changes above a mutant do not change its name.
fn without_position(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => mutant.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPLAINED: &str = "# a comment\n\na.rs: replace + with * in f\na.rs: replace + with * in f\n    \
         a bound\nb.rs: delete ! in g\n    why\n";

    fn faults(caught: &[&str], survived: &[&str], untried: &[&str]) -> Vec<String> {
        let owned = |mutants: &[&str]| mutants.iter().map(|mutant| (*mutant).to_owned()).collect::<Vec<_>>();
        let listed = owned(&[caught, survived, untried].concat());
        let finished = owned(caught).into_iter().map(|mutant| (mutant, "caught")).collect();
        let outcomes = Outcomes { listed, finished, survived: owned(survived) };
        outcomes.compared(&Explanations::parse(EXPLAINED).unwrap())
    }

    const FIRST: &str = "a.rs:1:2: replace + with * in f";
    const SECOND: &str = "a.rs:1:9: replace + with * in f";
    const THIRD: &str = "a.rs:7:2: replace + with * in f";
    const OTHER: &str = "b.rs:3:4: delete ! in g";

    #[test]
    fn survivors_must_be_explained_and_explained_mutants_must_survive() {
        assert!(faults(&[THIRD, "c.rs:1:1: x"], &[FIRST, SECOND, OTHER], &[]).is_empty());
        let more = faults(&[], &[FIRST, SECOND, THIRD, OTHER], &[]);
        assert_eq!(more.len(), 3, "any of them may be the one without a reason: {more:?}");
        assert!(more.iter().all(|fault| fault.starts_with("survived") && fault.contains("a.rs:")));
        assert_eq!(
            faults(&[], &[FIRST, SECOND, OTHER, "c.rs:1:1: x"], &[]),
            ["survived, and is not explained: c.rs:1:1: x"]
        );
        let stale = ["explained, and does not survive: a.rs: replace + with * in f"];
        assert_eq!(faults(&[SECOND], &[FIRST, OTHER], &[]), stale);
        assert_eq!(faults(&[], &[FIRST, OTHER], &[]), stale, "there is no second one any more");
    }

    #[test]
    fn untried_mutants_may_be_explained() {
        assert!(faults(&[], &[FIRST], &[SECOND, OTHER]).is_empty());
        assert!(faults(&[THIRD], &[], &[FIRST, SECOND, OTHER]).is_empty());
    }

    #[test]
    fn a_name_without_a_reason_explains_nothing() {
        assert!(Explanations::parse("a.rs: replace + with * in f\n").is_err());
    }
}
