//! Statements of `docs/operations.md`, which tests execute.

use std::path::Path;

/// Returns the statements of each example in a section of the operations page.
pub fn examples(section: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(path).unwrap();
    let text = page.split_once(&format!("\n## {section}\n")).unwrap().1;
    let text = text.split_once("\n## ").map_or(text, |(section, _)| section);
    let of = |example: &str| {
        let statements = example.split_once("```").unwrap().0.split(';').map(str::trim);
        statements.filter(|statement| !statement.is_empty()).map(str::to_owned).collect()
    };
    let (_, examples) = text.split_once("```sql\n").unwrap();
    examples.split("```sql\n").map(of).collect()
}
