//! Checks the licences of the Python packages that the tests use. None of them is shipped, so that licences of tools are allowed
//! as well.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::tidy::npm_licences::{ALLOWED_FOR_TOOLS, allowed, is_allowed};

/// Additional licences that packages of the Python project use.
const ALLOWED_FOR_PYTHON: [&str; 3] = ["LGPL-3.0-or-later", "MIT-0", "PSF-2.0"];

const DENY: &str = include_str!("../../../deny.toml");

/// Prints a line for each installed package: its name, and its licence from the first metadata field that has one.
const LIST: &str = r#"
import importlib.metadata
for package in importlib.metadata.distributions():
    about = package.metadata
    kinds = [kind for kind in about.get_all("Classifier") or [] if kind.startswith("License ::")]
    said = about.get("License-Expression") or about.get("License") or " AND ".join(kinds)
    print(about["Name"], said.split("\n")[0].strip(), sep="\t")
"#;

/// Licence texts of packages without a licence expression, with their SPDX expressions.
const LICENCE_NAMES: [(&str, &str); 10] = [
    ("MIT License", "MIT"),
    ("Apache 2.0", "Apache-2.0"),
    ("3-Clause BSD License", "BSD-3-Clause"),
    ("License :: OSI Approved :: MIT License", "MIT"),
    ("License :: OSI Approved :: Apache Software License", "Apache-2.0"),
    ("License :: OSI Approved :: BSD License", "BSD-3-Clause"),
    ("BSD", "BSD-3-Clause"),
    ("The MIT License (MIT)", "MIT"),
    ("Apache Software License", "Apache-2.0"),
    (
        "License :: OSI Approved :: GNU Lesser General Public License v3 or later (LGPLv3+)",
        "LGPL-3.0-or-later",
    ),
];

/// Packages that have a licence file but no name of a licence in their metadata, with what is there instead.
const LICENCES_IN_FILES: [(&str, &str, &str); 8] = [
    ("Canaille", "Copyright (c) 2020-2023 by Yaal Coop", "MIT"),
    ("Flask-WTF", "Copyright 2010 WTForms", "BSD-3-Clause"),
    ("WTForms", "Copyright 2008 WTForms", "BSD-3-Clause"),
    ("cel-python", "", "Apache-2.0"),
    ("flask-themer", "UNKNOWN", "MIT"),
    ("isodate", "Copyright (c) 2021, Hugo van Kemenade and contributors", "BSD-3-Clause"),
    ("pydanclick", "", "MIT"),
    ("zxcvbn-rs-py", "", "MIT"),
];

/// Returns an error if a package has no allowed licence.
pub fn check(python: &Path) -> Result<()> {
    let listed = process::capture_output(Command::new(python).args(["-c", LIST]))?;
    let found = violations(&listed)?;
    if !found.is_empty() {
        bail!("Python packages whose licences are not allowed:\n{}", found.join("\n"));
    }
    Ok(())
}

fn violations(listed: &str) -> Result<Vec<String>> {
    let allowed = allowed(DENY)?;
    let allowed: Vec<&str> =
        allowed.iter().map(String::as_str).chain(ALLOWED_FOR_TOOLS).chain(ALLOWED_FOR_PYTHON).collect();
    let mut found = Vec::new();
    for line in listed.lines() {
        let (name, stated) =
            line.split_once('\t').with_context(|| format!("`{line}` contains no licence"))?;
        let in_file =
            LICENCES_IN_FILES.iter().find(|(package, words, _)| (*package, *words) == (name, stated));
        let words = LICENCE_NAMES.iter().find(|(words, _)| *words == stated);
        let in_file = in_file.map(|(.., licence)| licence);
        let licence = in_file.or(words.map(|(_, licence)| licence)).map_or(stated, |licence| *licence);
        if !is_allowed(licence, &allowed) {
            found.push(format!("{name}: {stated:?}"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_other_licences_are_found() {
        let check = |line: &str| violations(line).unwrap();
        for line in [
            "a\tMIT",
            "a\tApache-2.0 OR BSD-2-Clause",
            "a\tMPL-2.0",
            "a\tLicense :: OSI Approved :: MIT License",
            "cel-python\t",
        ] {
            assert_eq!(check(line), Vec::<String>::new(), "{line}");
        }
        for line in [
            "a\t",
            "a\tGPL-3.0-only",
            "a\tMIT AND GPL-3.0-only",
            "a\tfree for all",
            "cel-python\tGPL-3.0-only",
        ] {
            assert_eq!(check(line).len(), 1, "{line}");
        }
        assert!(violations("a").is_err());
    }
}
