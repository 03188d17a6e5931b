//! A JSON object that is taken apart and put together again, while the values in it stay as they were written.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The members of an object, in their order. Of equal keys the last counts, as in most readers.
#[derive(Clone, Debug, Default)]
pub(super) struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    /// An object as it was written; none where it is something else.
    pub(super) fn read(raw: &[u8]) -> Option<Object> {
        serde_json::from_slice(raw).ok()
    }

    /// The same, where nothing is as good as an empty one.
    pub(super) fn of(raw: Option<&[u8]>) -> Object {
        raw.and_then(Object::read).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn raw(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// A member that is an object itself; an empty one if it is not.
    pub(super) fn object(&self, key: &str) -> Object {
        Object::of(self.raw(key).map(|raw| raw.get().as_bytes()))
    }

    /// A member as a value; null where there is none.
    pub(super) fn value(&self, key: &str) -> Value {
        self.raw(key).and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.raw(key).and_then(|raw| serde_json::from_str(raw.get()).ok())
    }

    pub(super) fn put_raw(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Puts what certainly can be written: values, and objects of these.
    pub(super) fn put(&mut self, key: &str, value: impl Serialize) {
        if let Ok(raw) = to_raw_value(&value) {
            self.put_raw(key, raw);
        }
    }

    /// Puts it unless there is one.
    pub(super) fn put_if_absent(&mut self, key: &str, value: impl Serialize) {
        if self.raw(key).is_none() {
            self.put(key, value);
        }
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| wanted(name));
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        // Its keys are strings and its values are JSON already: writing that into memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object, M::Error> {
                let mut object = Object::default();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    object.put_raw(&name, value);
                }
                Ok(object)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_were_written() {
        let text = r#"{"b":1.50,"a":{"y" : 12345678901234567890123, "x":"\u00e9"},"b\"":null}"#;
        let mut object = Object::read(text.as_bytes()).unwrap();
        assert_eq!(object.bytes(), text.as_bytes());
        object.put("c", true);
        object.put_if_absent("b", 7);
        object.remove("a");
        assert_eq!(object.bytes(), br#"{"b":1.50,"b\"":null,"c":true}"#);
    }

    #[test]
    fn of_equal_keys_the_last_counts_and_nothing_else_is_an_object() {
        assert_eq!(Object::read(br#"{"a":1,"a":2}"#).unwrap().bytes(), br#"{"a":2}"#);
        assert!(Object::read(b"[1]").is_none());
        assert!(Object::of(Some(b"3")).is_empty());
    }
}
