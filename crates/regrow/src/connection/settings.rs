//! What does not change over the life of a connection.

use std::sync::Arc;

use regrow_core::Policy;
use regrow_protocol::version::Era;

use super::wire_ids::WireIds;
use crate::approval::Approver;
use crate::eras::EraFile;
use crate::mask::Mask;

/// What does not change over the life of a connection.
pub(crate) struct Settings {
    pub(crate) name: Arc<str>,
    pub(crate) policy: Policy,
    pub(crate) max_line: usize,
    pub(crate) mask: Mask,
    pub(crate) stderr_in_errors: StderrInErrors,
    pub(crate) is_safe_tool: Option<IsSafeTool>,
    /// Sees what each session offers before calls leave.
    pub(crate) approver: Option<Arc<dyn Approver>>,
    /// We greet the server ourselves, also where a client does.
    pub(crate) greets: bool,
    pub(crate) wire_ids: WireIds,
    /// The era that was asked for.
    pub(crate) era: Era,
    /// Where the era of the server, known by this address, is remembered over starts.
    pub(crate) era_file: Option<(EraFile, String)>,
}

/// Which errors carry the last lines of a server's stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StderrInErrors {
    Never,
    /// Those of a failed start: they tell the cause.
    AtStart,
    Always,
}

/// Whether the operator declared a tool safe to repeat.
pub(crate) type IsSafeTool = Arc<dyn Fn(&str) -> bool + Send + Sync>;
