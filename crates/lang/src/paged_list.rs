//! Lists that are too large to be a value: they are read page by page.
//!
//! The evaluator reads only the elements that a path, an index or a slice asks for, and passes all of them one by one
//! through calls such as `where` and `sum`. Nothing here keeps an element.

use crate::value::Value;
use crate::world::ComputeError;

/// A list that is read page by page. Its elements do not change while an evaluation reads it.
pub trait PagedList: Send + Sync {
    /// The number of elements.
    fn len(&self) -> u64;

    /// Whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A list of at least one element, beginning with the element at index `from`.
    fn page(&self, from: u64) -> Result<Value, ComputeError>;
}

/// A list in memory that is read like a paged one, in a single page.
#[derive(Debug, Clone)]
pub struct SinglePageList(Value);

impl SinglePageList {
    /// Wraps a list value. Any other value has no elements.
    pub fn new(list: Value) -> Self {
        Self(list)
    }

    fn items(&self) -> &[Value] {
        self.0.as_list().unwrap_or_default()
    }
}

impl PagedList for SinglePageList {
    fn len(&self) -> u64 {
        self.items().len() as u64
    }

    fn page(&self, from: u64) -> Result<Value, ComputeError> {
        if from == 0 {
            return Ok(self.0.clone());
        }
        let left = usize::try_from(from).ok().and_then(|from| self.items().get(from..)).unwrap_or_default();
        let failed = |_| ComputeError::Failed { message: "a page is too large".to_owned(), hint: None };
        Value::list(left.to_vec()).map_err(failed)
    }
}
