//! Files with spans.
