//! A deserializer for documents that a schema describes, where serde's derived code differs from JSON Schema:
//! - A struct is only read from an object. Derived code also accepts an array with the members in the order of their
//!   declaration: an undocumented and unchecked second form of every body, to which `deny_unknown_fields` does not apply.
//! - An integer may be written as `30.0` or `3e1`, which is the same number.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// Wraps a deserializer of a self-describing format and applies the same rules to all nested values.
pub struct StrictDeserializer<D>(
    /// The deserializer.
    pub D,
);

/// Applies the same rules to the values that a visitor reads.
struct StrictVisitor<V>(V);

/// Visits an object that becomes a struct. It has its own `expecting` text, because the derived one names the Rust type.
struct ObjectVisitor<V>(V);

/// Visits the name of an enum's variant. All enums in the wire format are strings.
struct EnumVisitor<V>(V);

struct StrictSeed<S>(S);

struct StrictAccess<A>(A);

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* StrictVisitor(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for StrictDeserializer<D> {
    type Error = D::Error;

    forward! {
        deserialize_any();
        deserialize_option();
        deserialize_newtype_struct(name: &'static str);
        deserialize_ignored_any();
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(ObjectVisitor(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_str(EnumVisitor(visitor))
    }
}

macro_rules! visit {
    ($($method:ident($($value:ident: $type:ty)?);)*) => {
        $(fn $method<E: Error>(self $(, $value: $type)?) -> Result<V::Value, E> {
            self.0.$method($($value)?)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for StrictVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_none();
        visit_unit();
        visit_bool(value: bool);
        visit_i64(value: i64);
        visit_u64(value: u64);
        visit_str(value: &str);
        visit_borrowed_str(value: &'de str);
        visit_bytes(value: &[u8]);
    }

    /// A whole number is an integer, which is also accepted where a float is expected.
    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        // 2⁵³: from here on, a float can stand for several integers.
        const LIMIT: f64 = 9_007_199_254_740_992.0;
        if value.fract() != 0.0 || value.abs() >= LIMIT {
            self.0.visit_f64(value)
        } else if value < 0.0 {
            self.0.visit_i64(value as i64)
        } else {
            self.0.visit_u64(value as u64)
        }
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(StrictDeserializer(deserializer))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(StrictDeserializer(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(StrictAccess(access))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(StrictAccess(access))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ObjectVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(StrictAccess(access))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for EnumVisitor<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<V::Value, E> {
        let word: StrDeserializer<'_, E> = word.into_deserializer();
        self.0.visit_enum(word)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for StrictSeed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(StrictDeserializer(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for StrictAccess<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(StrictSeed(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for StrictAccess<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        // A key is a string, so no rules apply to it.
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(StrictSeed(seed))
    }
}
