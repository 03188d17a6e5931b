//! The sides that clients see.
