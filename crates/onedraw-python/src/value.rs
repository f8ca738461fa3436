//! Python objects as input of serde, so that keyword arguments are read by the same code as JSON, with the
//! same errors.

use std::fmt;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};

/// Any object.
#[derive(Clone)]
pub struct Value<'py> {
    object: Bound<'py, PyAny>,
    /// How deep it is nested. A list may contain itself, so there is a limit.
    depth: u32,
}

/// The deepest nesting that is read. Parameters are at most lists of lists, so this is more than enough.
const DEEPEST: u32 = 8;

/// Keyword arguments without the one named `without`.
pub struct Fields<'a, 'py> {
    pub arguments: &'a Bound<'py, PyDict>,
    pub without: &'a str,
}

/// Why an object cannot be read.
#[derive(Debug)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl de::Error for Failure {
    fn custom<T: fmt::Display>(message: T) -> Self {
        // JSON's word for None.
        Self(message.to_string().replace("-1 or null for", "-1 or None for"))
    }

    // serde calls None a unit.
    fn invalid_type(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        match unexpected {
            de::Unexpected::Unit => Self(format!("invalid type: None, expected {expected}")),
            other => Self(format!("invalid type: {other}, expected {expected}")),
        }
    }
}

fn failed(error: PyErr) -> Failure {
    Failure(error.to_string())
}

/// The name of an object's type.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().qualname().map_or_else(|_| "object".to_owned(), |name| name.to_string())
}

/// The items of an iterable.
fn items<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    object.try_iter()?.collect()
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let object = &self.object;
        let within = |object| Value { object, depth: self.depth + 1 };
        if self.depth > DEEPEST {
            return Err(Failure("lists are nested too deeply".to_owned()));
        }
        if object.is_none() {
            return visitor.visit_unit();
        }
        if let Ok(value) = object.cast::<PyBool>() {
            return visitor.visit_bool(value.is_true());
        }
        if let Ok(value) = object.cast::<PyFloat>() {
            return visitor.visit_f64(value.value());
        }
        if object.cast::<PyInt>().is_ok() {
            return integer(object, visitor);
        }
        if let Ok(value) = object.cast::<PyString>() {
            return visitor.visit_str(value.to_str().map_err(failed)?);
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            let entries: Vec<_> = dict.iter().map(|(key, value)| (Key(key), within(value))).collect();
            return visitor.visit_map(MapDeserializer::new(entries.into_iter()));
        }
        // Numbers and arrays of NumPy and similar libraries.
        if object.hasattr("tolist").map_err(failed)? {
            return within(object.call_method0("tolist").map_err(failed)?).deserialize_any(visitor);
        }
        if object.hasattr("keys").map_err(failed)? {
            let dict = PyDict::new(object.py());
            dict.call_method1("update", (object,)).map_err(failed)?;
            return within(dict.into_any()).deserialize_any(visitor);
        }
        if !object.hasattr("__len__").map_err(failed)? {
            if object.hasattr("__index__").map_err(failed)? {
                return integer(&object.call_method0("__index__").map_err(failed)?, visitor);
            }
            if object.hasattr("__float__").map_err(failed)? {
                let float = object.call_method0("__float__").map_err(failed)?;
                return visitor.visit_f64(float.extract().map_err(failed)?);
            }
        }
        match items(object) {
            Ok(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(within))),
            Err(_) => Err(Failure(format!("an object of the type {} cannot be read", type_name(object)))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        if self.object.is_none() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match self.object.cast::<PyString>() {
            Ok(name) => visitor.visit_enum(name.to_str().map_err(failed)?.into_deserializer()),
            Err(_) => Err(Failure(format!(
                "expected a string, not an object of the type {}",
                type_name(&self.object)
            ))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn integer<'de, V: Visitor<'de>>(object: &Bound<'_, PyAny>, visitor: V) -> Result<V::Value, Failure> {
    if let Ok(value) = object.extract::<i64>() {
        return visitor.visit_i64(value);
    }
    match object.extract::<u64>() {
        Ok(value) => visitor.visit_u64(value),
        Err(_) => Err(Failure(format!("the integer {object} does not fit 64 bits"))),
    }
}

/// A name, or the id of a token, which JSON would write as a string.
struct Key<'py>(Bound<'py, PyAny>);

impl<'de> Deserializer<'de> for Key<'_> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.0.cast::<PyString>() {
            Ok(name) => visitor.visit_str(name.to_str().map_err(failed)?),
            Err(_) => visitor.visit_string(self.0.str().map_err(failed)?.to_string()),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Failure> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> IntoDeserializer<'de, Failure> for Key<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Fields<'_, '_> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let mut entries = Vec::with_capacity(self.arguments.len());
        for (name, value) in self.arguments.iter() {
            let is_left_out = name
                .cast::<PyString>()
                .is_ok_and(|name| name.to_str().is_ok_and(|name| name == self.without));
            if !is_left_out {
                entries.push((Key(name), Value { object: value, depth: 0 }));
            }
        }
        visitor.visit_map(MapDeserializer::new(entries.into_iter()))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}
