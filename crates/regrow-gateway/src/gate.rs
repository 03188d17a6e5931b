//! How many calls of all clients a server gets at once, and how fast.
