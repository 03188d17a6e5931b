//! What changes, for people to look at before it is done.

use regrow_protocol::text::escape_except_tabs;
use similar::{ChangeTag, TextDiff};

/// A longer line is cut.
const LONGEST: usize = 200;

/// The lines that differ, as they are and as they will be.
pub(super) fn text(old: &str, new: &str) -> String {
    let difference = TextDiff::from_lines(old, new);
    let mut text = String::new();
    for group in difference.grouped_ops(0) {
        let line = group.first().map_or(0, |change| change.old_range().start) + 1;
        text.push_str(&format!("@@ line {line} @@\n"));
        for change in group.iter().flat_map(|change| difference.iter_changes(change)) {
            let mark = if change.tag() == ChangeTag::Delete { '-' } else { '+' };
            text.push_str(&format!("{mark}{}\n", shown(change.value())));
        }
    }
    text
}

/// A line without what acts on a terminal, and not endless.
fn shown(line: &str) -> String {
    let line = line.trim_end();
    let end = line.char_indices().nth(LONGEST).map_or(line.len(), |(end, _)| end);
    format!("{}{}", escape_except_tabs(&line[..end]), if end < line.len() { "…" } else { "" })
}
