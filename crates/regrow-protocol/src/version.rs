//! Protocol versions, and the two eras that they belong to.

/// The first version of the modern era, and the only one so far.
pub const MODERN: &str = "2026-07-28";
/// The newest version of the legacy era.
pub const LATEST_LEGACY: &str = "2025-11-25";
/// The versions of the legacy era, newest first.
pub const LEGACY: [&str; 4] = [LATEST_LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"];
/// All versions, newest first.
pub const ALL: [&str; 5] = [MODERN, LEGACY[0], LEGACY[1], LEGACY[2], LEGACY[3]];

/// The era that a server is spoken to in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// Regrow detects it.
    #[default]
    Auto,
    /// Handshake and sessions, up to 2025-11-25.
    Legacy,
    /// Stateless, from 2026-07-28.
    Modern,
}
