//! Deserializer for the content of a document.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use super::node::{Node, NodeContent};
use crate::json::EXACT_NUMBERS;

/// A value of a document. A visitor for [`EXACT_NUMBERS`] receives a number as its text; other visitors receive the nearest 64-bit
/// number.
#[derive(Clone, Copy)]
pub(super) struct NodeDeserializer<'n>(pub(super) &'n Node);

/// A value for a visitor for [`EXACT_NUMBERS`].
struct ExactNumbers<'n>(NodeDeserializer<'n>);

impl<'de> Deserializer<'de> for NodeDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.content {
            NodeContent::Null => visitor.visit_unit(),
            NodeContent::Bool(value) => visitor.visit_bool(*value),
            NodeContent::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (_, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.to_f64()),
            },
            NodeContent::Text(text) => visitor.visit_str(text),
            NodeContent::List(list) => {
                SeqDeserializer::new(list.iter().map(NodeDeserializer)).deserialize_any(visitor)
            }
            NodeContent::Object(members) => {
                let members = members.iter().map(|(name, _, node)| (name.as_str(), NodeDeserializer(node)));
                MapDeserializer::new(members).deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.content {
            NodeContent::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == EXACT_NUMBERS {
            visitor.visit_newtype_struct(ExactNumbers(self))
        } else {
            visitor.visit_newtype_struct(self)
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for NodeDeserializer<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ExactNumbers<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.0.content {
            NodeContent::Number(number) => visitor.visit_bytes(number.as_str().as_bytes()),
            _ => self.0.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::document::{Document, json_of, yaml};
    use crate::json::Json;
    use crate::policy_file::PolicyFile;

    /// Returns the numbers in a test's span after an export, as JSON and as YAML.
    fn exported(document: &Document) -> (String, String) {
        let file: PolicyFile = document.parse().unwrap();
        // Stored and parsed again.
        let kept = serde_json::to_string(&file).unwrap();
        let file: PolicyFile = Document::read_json(&kept).unwrap().parse().unwrap();
        let json = json_of(&file).unwrap();
        (serde_json::to_string(&json).unwrap(), yaml(&json))
    }

    fn check_round_trip(number: &str) {
        let json = format!(
            r#"{{"binding": null, "tests": [{{"name": "t", "user": "u", "spans": [{{"num": {number}, "l": [{{"m": {number}}}]}}]}}]}}"#
        );
        let documents = [Document::read_json(&json), Document::read_yaml(&json), Document::read(&json)];
        for document in documents {
            let (json, yaml) = exported(&document.unwrap());
            assert!(json.contains(&format!(r#"[{{"num":{number},"l":[{{"m":{number}}}]}}]"#)), "{json}");
            assert!(
                yaml.contains(&format!("num: {number}\n")) && yaml.contains(&format!("m: {number}\n")),
                "{yaml}"
            );
            assert_eq!(exported(&Document::read_yaml(&yaml).unwrap()), (json, yaml));
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        let long = "9".repeat(400);
        for number in [
            "18446744073709551616",
            "-9223372036854775809",
            "12345678901234.5678",
            "1700010800.901161215",
            "-0",
            "-0.0",
            "0",
            "5.0",
            "1e400",
            "1E-999999999",
            &long,
        ] {
            check_round_trip(number);
        }
    }

    #[test]
    fn numbers_are_read_in_their_type() {
        let parse_list = |text: &str| Document::read_json(text).unwrap().parse::<Vec<u64>>();
        assert_eq!(parse_list("[7, 18446744073709551615]").unwrap(), [7, u64::MAX]);
        let error = parse_list("[1, 1e400]").unwrap_err();
        assert_eq!(error.pointer, "/1");
        assert!(error.message.starts_with("invalid type: floating point"), "{error:?}");
    }

    proptest! {
        #[test]
        fn every_number_round_trips(number in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,6})?") {
            check_round_trip(&number);
            let json: Json = Document::read_json(&number).unwrap().parse().unwrap();
            prop_assert_eq!(serde_json::to_string(&json).unwrap(), number);
        }
    }
}
