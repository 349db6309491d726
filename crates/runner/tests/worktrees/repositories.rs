//! Repositories of all sorts.
