//! The fields of a stored object: how an object is made of them, and how each of them is read once.

use ecow::EcoString;
use threadline_engine::Hash;
use threadline_engine::event::Status;
use threadline_lang::{Object, Value};

/// The fields of an object, in their order.
pub type StoredFields = Vec<(&'static str, Value)>;

/// What was read, or why it cannot be.
pub(super) type FieldResult<T> = Result<T, String>;

pub(super) fn hash(hash: &Hash) -> Value {
    Value::from(hash.to_string().as_str())
}

/// Reads each field of a stored object once, and knows whether any is left.
pub(super) struct FieldReader<'v> {
    object: &'v Object,
    taken: usize,
}

impl<'v> FieldReader<'v> {
    pub(super) fn new(value: &'v Value) -> FieldResult<Self> {
        let object = value.as_object().ok_or("it is not an object")?;
        Ok(Self { object, taken: 0 })
    }

    /// Reads an object all of whose fields are known to `read`.
    pub(super) fn read_all<T>(
        value: &'v Value,
        read: impl FnOnce(&mut Self) -> FieldResult<T>,
    ) -> FieldResult<T> {
        let mut reader = Self::new(value)?;
        let found = read(&mut reader)?;
        reader.finish()?;
        Ok(found)
    }

    pub(super) fn optional(&mut self, key: &str) -> Option<&'v Value> {
        let value = self.object.get_str(key);
        self.taken += usize::from(value.is_some());
        value
    }

    pub(super) fn value(&mut self, key: &str) -> FieldResult<&'v Value> {
        self.optional(key).ok_or_else(|| format!("it has no `{key}`"))
    }

    pub(super) fn text(&mut self, key: &str) -> FieldResult<&'v str> {
        self.value(key)?.as_str().ok_or_else(|| format!("`{key}` is not a text"))
    }

    pub(super) fn optional_text(&mut self, key: &str) -> FieldResult<Option<EcoString>> {
        if self.has(key) { Ok(Some(self.text(key)?.into())) } else { Ok(None) }
    }

    pub(super) fn text_or_null(&mut self, key: &str) -> FieldResult<Option<&'v str>> {
        if self.is_null(key) {
            self.taken += 1;
            return Ok(None);
        }
        self.text(key).map(Some)
    }

    pub(super) fn int(&mut self, key: &str) -> FieldResult<i64> {
        self.value(key)?.as_i64().ok_or_else(|| format!("`{key}` is not an int"))
    }

    pub(super) fn count(&mut self, key: &str) -> FieldResult<u64> {
        u64::try_from(self.int(key)?).map_err(|_| format!("`{key}` is below 0"))
    }

    pub(super) fn optional_count(&mut self, key: &str) -> FieldResult<Option<u64>> {
        if self.has(key) { self.count(key).map(Some) } else { Ok(None) }
    }

    pub(super) fn count_or_null(&mut self, key: &str) -> FieldResult<Option<u64>> {
        if self.is_null(key) {
            self.taken += 1;
            return Ok(None);
        }
        self.count(key).map(Some)
    }

    pub(super) fn attempt(&mut self, key: &str) -> FieldResult<u32> {
        u32::try_from(self.count(key)?).map_err(|_| format!("`{key}` is too large"))
    }

    pub(super) fn bool(&mut self, key: &str) -> FieldResult<bool> {
        self.value(key)?.as_bool().ok_or_else(|| format!("`{key}` is not a bool"))
    }

    pub(super) fn list(&mut self, key: &str) -> FieldResult<&'v [Value]> {
        self.value(key)?.as_list().ok_or_else(|| format!("`{key}` is not a list"))
    }

    pub(super) fn hash(&mut self, key: &str) -> FieldResult<Hash> {
        self.text(key)?.parse().map_err(|_| format!("`{key}` is not a hash"))
    }

    pub(super) fn optional_hash(&mut self, key: &str) -> FieldResult<Option<Hash>> {
        if self.has(key) { self.hash(key).map(Some) } else { Ok(None) }
    }

    pub(super) fn status(&mut self, key: &str) -> FieldResult<Status> {
        let status = self.text(key)?;
        let known = Status::ALL.into_iter().find(|known| known.name() == status);
        known.ok_or_else(|| format!("there is no status `{status}`"))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.object.get_str(key).is_some()
    }

    fn is_null(&self, key: &str) -> bool {
        self.object.get_str(key).is_some_and(Value::is_null)
    }

    /// Fails if there is a field that was not read.
    pub(super) fn finish(&self) -> FieldResult<()> {
        if self.taken == self.object.len() {
            Ok(())
        } else {
            Err("it holds a key that is not known".to_owned())
        }
    }
}
