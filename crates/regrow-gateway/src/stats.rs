//! What became of the calls to one server, counted.
