//! What several servers offer together, and what each thing is called there.
