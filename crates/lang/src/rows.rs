//! Lists that are too large to be a value: they are read page by page.
//!
//! The evaluator reads the rows that a path, an index or a slice asks for, and passes all of them one by one through
//! calls such as `where` and `sum`. Nothing here keeps a row.

use crate::value::Value;
use crate::world::ComputeError;

/// A list that is read page by page. It stays what it is while an evaluation reads it.
pub trait Rows: Send + Sync {
    /// How many rows there are.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows from this one on, at least one of them: a list.
    fn page(&self, from: u64) -> Result<Value, ComputeError>;
}

/// The elements of a list as rows, all of them in one page.
#[derive(Debug, Clone)]
pub struct RowList(Value);

impl RowList {
    /// The elements of a list; of anything else there are none.
    pub fn new(list: Value) -> Self {
        Self(list)
    }

    fn items(&self) -> &[Value] {
        self.0.as_list().unwrap_or_default()
    }
}

impl Rows for RowList {
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
