//! Namespaces: the values of a template that can change, and so the only ones that can contain themselves.
//!
//! The engine's own namespace is a map. To print or compare one that contains itself, the engine would follow it
//! for ever and overflow the stack, which ends the process. Ours is opaque: it gives the attributes that are asked
//! for by name, and nothing looks through it. All namespaces look alike, so they compare as equal.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Kwargs, Object, ObjectRepr, Value};
use minijinja::{Environment, Error, ErrorKind};

/// The function and the filter that [assignments](super::source) become.
pub(super) const ASSIGN: &str = "__assign";

#[derive(Default)]
struct Namespace(Mutex<BTreeMap<String, Value>>);

impl Namespace {
    fn set(&self, name: &str, value: Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value);
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<namespace>")
    }
}

impl Object for Namespace {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key.as_str()?).cloned()
    }
}

/// Gives templates `namespace`, and what assigns to one.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.add_function("namespace", |first: Option<Value>, named: Kwargs| new(first.as_ref(), &named));
    environment.add_function(ASSIGN, |target: &Value, name: &str, value: Value| assign(target, name, value));
    environment.add_filter(ASSIGN, |value: Value, target: &Value, name: &str| assign(target, name, value));
}

/// A namespace with the entries of a map, those that are named, or both.
fn new(first: Option<&Value>, named: &Kwargs) -> Result<Value, Error> {
    let namespace = Namespace::default();
    if let Some(map) = first {
        for key in map.try_iter()? {
            let wrong =
                || Error::new(ErrorKind::InvalidOperation, "namespace: the map has a key that is no string");
            namespace.set(key.as_str().ok_or_else(wrong)?, map.get_item(&key)?);
        }
    }
    for name in named.args() {
        namespace.set(name, named.get(name)?);
    }
    Ok(Value::from_object(namespace))
}

/// Sets an attribute of a namespace, and writes nothing.
fn assign(target: &Value, name: &str, value: Value) -> Result<&'static str, Error> {
    let Some(namespace) = target.downcast_object_ref::<Namespace>() else {
        let message = format!("can only assign to namespaces, not {}", target.kind());
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    };
    namespace.set(name, value);
    Ok("")
}
