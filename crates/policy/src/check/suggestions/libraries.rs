//! Suggestions for functions of other CEL environments: sets, lists, optional values, numbers, text, addresses, times.

use cel::IdedExpr;

use crate::check::suggestions::Suggester;
use crate::expression::Type;

impl Suggester<'_> {
    /// Suggests a replacement for a function of another environment. `lower` is its name in lower case, `all` its
    /// target and arguments, `types` their types, where they are known.
    pub(in crate::check) fn library_replacement(
        &self,
        lower: &str,
        all: &[&IdedExpr],
        types: &[Option<Type>],
    ) -> Option<String> {
        self.set_test(lower, all, types).or_else(|| {
            let first = all.first().map_or_else(|| "x".to_owned(), |node| self.parsed.operand(node, "x"));
            self.presence_test(lower, all, &first).or_else(|| suggest_other(lower, &first))
        })
    }

    /// Functions that compare two lists as sets. A string counts as a list of one element.
    fn set_test(&self, lower: &str, all: &[&IdedExpr], types: &[Option<Type>]) -> Option<String> {
        let [one, other] = all else { return None };
        let set = |node: &IdedExpr, at: usize| SetOperand {
            text: self.parsed.operand(node, "[…]"),
            is_one: types.get(at).copied().flatten() == Some(Type::Text),
        };
        let (one, other) = (set(one, 0), set(other, 1));
        let element =
            ["t", "v", "element"].into_iter().find(|name| !self.scope.is_known(name)).unwrap_or("item");
        Some(match lower {
            "hasintersection" | "intersects" | "intersect" | "intersection" | "sets.intersects"
            | "sets.intersection" | "containsany" | "hasany" | "overlaps" | "anyin" => {
                format!("write `{}`", one.intersects(&other, element))
            }
            "issubset" | "issubsetof" | "subset" | "subsetof" | "sets.issubset" | "allin" => {
                format!("write `{}`", one.is_subset(&other, element))
            }
            "sets.contains" | "containsall" | "hasall" | "issuperset" | "issupersetof" | "superset" => {
                format!("write `{}`", other.is_subset(&one, element))
            }
            "sets.equivalent" | "equivalent" | "sets.equals" => {
                format!("write `{} && {}`", one.is_subset(&other, element), other.is_subset(&one, element))
            }
            _ => return None,
        })
    }

    /// Functions for values that may be absent.
    fn presence_test(&self, lower: &str, all: &[&IdedExpr], first: &str) -> Option<String> {
        let presence = all.first().and_then(|node| self.presence(node));
        Some(match (lower, presence) {
            ("hasvalue", Some(presence)) => format!("to test whether it is present, write `{presence}`"),
            ("hasvalue", None) => {
                "only a key of a map and an attribute of the caller can be absent: leave this out".to_owned()
            }
            ("orvalue" | "value" | "optmap" | "getordefault" | "getor" | "default", presence) => {
                let written = presence.map_or(String::new(), |presence| {
                    format!(": write `{presence} && …`, with `{first}` in the condition")
                });
                format!(
                    "there are no defaults; where a value is absent, the condition is not satisfied{written}"
                )
            }
            ("optional.of" | "optional.ofnonzerovalue", _) => {
                format!("a policy has no optional values: write `{first}`")
            }
            ("optional.none", _) => format!("a policy has no optional values: {}", self.key_test()),
            _ => return None,
        })
    }
}

fn suggest_other(lower: &str, first: &str) -> Option<String> {
    let library = lower.split_once('.').map_or("", |(library, _)| library);
    Some(match (library, lower) {
        ("math", _) | (_, "sum" | "min" | "max" | "avg" | "abs" | "greatest" | "least" | "round" | "floor" | "ceil") => {
            "a policy cannot calculate: compare each value by itself".to_owned()
        }
        ("lists" | "maps", _) | (_, "first" | "last" | "slice" | "transformlist" | "transformmap") => {
            let list = if library.is_empty() { first } else { "list" };
            format!("to test the elements of a list, write `{list}.exists(v, …)` or `{list}.all(v, …)`")
        }
        ("strings" | "regex" | "base64" | "json" | "ip" | "cidr" | "net" | "url" | "semver", _)
        | (_, "trim" | "split" | "replace" | "substring" | "join" | "format" | "concat" | "charat" | "containsip" | "cidr") => {
            "a policy cannot change text: compare it with `==`, `startsWith`, `endsWith`, `contains` or `matches`"
                .to_owned()
        }
        ("time", _)
        | (
            _,
            "getfullyear" | "gethours" | "timesince" | "timestamp" | "duration" | "now" | "date" | "int" | "uint"
            | "double" | "string" | "bool" | "bytes" | "tostring" | "toint" | "cast" | "dyn" | "type",
        ) => "values are compared as they are: a policy has no conversions, times or numbers".to_owned(),
        _ => return None,
    })
}

/// An operand of a set comparison.
struct SetOperand {
    text: String,
    is_one: bool,
}

impl SetOperand {
    /// Returns the condition that both have an element in common.
    fn intersects(&self, other: &Self, element: &str) -> String {
        match (self.is_one, other.is_one) {
            (true, _) => self.is_subset(other, element),
            (false, true) => format!("{} in {}", other.text, self.text),
            (false, false) => format!("{}.exists({element}, {element} in {})", self.text, other.text),
        }
    }

    /// Returns the condition that all elements of this set are in the other.
    fn is_subset(&self, other: &Self, element: &str) -> String {
        let relation = if other.is_one { "==" } else { "in" };
        match self.is_one {
            true => format!("{} {relation} {}", self.text, other.text),
            false => format!("{}.all({element}, {element} {relation} {})", self.text, other.text),
        }
    }
}
