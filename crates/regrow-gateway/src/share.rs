//! One connection, shared by the clients of one principal.
