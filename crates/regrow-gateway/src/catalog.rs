//! What one server offers, as it last said.
