//! A kill at any instant.
