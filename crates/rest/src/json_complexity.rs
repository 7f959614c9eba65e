//! Complexity limits on a JSON text, checked before it is parsed.
//!
//! Two brackets become hundreds of bytes in a parsed tree, so the size of a body says little about the memory that it needs.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Maximum number of lists and objects in a body. The largest legitimate request, a filter with its conditions, has a few dozen.
const MAX_CONTAINERS: usize = 1_000;

/// Maximum number of values in a body, including lists and objects.
const MAX_VALUES: usize = 50_000;

/// Returns whether a JSON text is within the limits. Only the valid beginning of a malformed text is counted; its parser reports
/// the error.
pub(crate) fn within_limits(json: &[u8]) -> bool {
    let mut count = Count::default();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let _counted = (&mut count).deserialize(&mut deserializer);
    count.within_limits()
}

#[derive(Default)]
struct Count {
    values: usize,
    containers: usize,
}

impl Count {
    fn within_limits(&self) -> bool {
        self.values <= MAX_VALUES && self.containers <= MAX_CONTAINERS
    }

    fn value<E: Error>(&mut self) -> Result<(), E> {
        self.values = self.values.saturating_add(1);
        if self.within_limits() { Ok(()) } else { Err(E::custom("too much")) }
    }

    fn container<E: Error>(&mut self) -> Result<(), E> {
        self.containers = self.containers.saturating_add(1);
        self.value()
    }
}

impl<'de> DeserializeSeed<'de> for &mut Count {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! scalars {
    ($($method:ident($($type:ty)?);)*) => {
        $(fn $method<E: Error>(self, $(_: $type)?) -> Result<(), E> {
            self.value()
        })*
    };
}

impl<'de> Visitor<'de> for &mut Count {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    scalars! {
        visit_unit();
        visit_bool(bool);
        visit_i64(i64);
        visit_u64(u64);
        visit_f64(f64);
        visit_str(&str);
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.container()?;
        while list.next_element_seed(&mut *self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        self.container()?;
        while object.next_key::<IgnoredAny>()?.is_some() {
            object.next_value_seed(&mut *self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_objects_and_values_are_counted_at_any_position() {
        let many = |one: &str, number: usize| format!("[{}]", vec![one; number].join(","));
        // The surrounding list counts too.
        assert!(within_limits(many("[]", MAX_CONTAINERS - 1).as_bytes()));
        assert!(!within_limits(many("[]", MAX_CONTAINERS).as_bytes()));
        assert!(within_limits(many(r#"{"a": {}}"#, MAX_CONTAINERS / 2 - 1).as_bytes()));
        assert!(!within_limits(many(r#"{"a": {}}"#, MAX_CONTAINERS / 2).as_bytes()));
        for scalar in ["null", "true", "-1", "18446744073709551615", "1e400", "0.5", r#""a""#, r#""\u00e9""#]
        {
            let (most, more) = (many(scalar, MAX_VALUES - 1), many(scalar, MAX_VALUES));
            assert!(within_limits(most.as_bytes()), "{scalar}");
            // Counting ends at an invalid number.
            assert_eq!(within_limits(more.as_bytes()), scalar == "1e400", "{scalar}");
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(!within_limits(many(&deep(100), 11).as_bytes()));
    }

    #[test]
    fn invalid_json_is_left_to_the_parser() {
        for text in ["", "x", "[1,", "{\"a\": }", "\u{feff}{}", "[]]"] {
            assert!(within_limits(text.as_bytes()), "{text}");
        }
        // Until the limit is exceeded.
        assert!(!within_limits(format!("[{}", "[],".repeat(MAX_CONTAINERS)).as_bytes()));
        assert!(within_limits(b"\xff\xfe"));
    }
}
