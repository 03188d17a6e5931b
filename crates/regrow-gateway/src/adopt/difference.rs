//! What changes, for people to look at before it is done.

use std::ops::Range;

use regrow_protocol::text::escape_except_tabs;

use super::edit::{Edit, apply};

/// A longer line is cut.
const LONGEST: usize = 200;

/// The lines that change, as they are and as they will be. Secrets are shown as `***`.
pub(super) fn text(text: &str, edits: &[Edit], secrets: &[Range<usize>]) -> String {
    let hidden = "\"***\"";
    let mut old: Vec<(Range<usize>, &str)> = secrets.iter().map(|range| (range.clone(), hidden)).collect();
    old.sort_by_key(|(range, _)| range.start);
    let free = |range: &Range<usize>| {
        edits.iter().all(|edit| edit.range.end <= range.start || edit.range.start >= range.end)
    };
    let kept = old.iter().filter(|(range, _)| free(range)).cloned();
    let shown = edits.iter().map(|edit| (edit.range.clone(), edit.shown.as_deref().unwrap_or(&edit.text)));
    let mut new: Vec<(Range<usize>, &str)> = kept.chain(shown).collect();
    new.sort_by_key(|(range, _)| (range.start, range.end));

    let mut difference = String::new();
    for part in parts(text, edits) {
        let line = text[..part.start].matches('\n').count() + 1;
        difference.push_str(&format!("@@ line {line} @@\n"));
        for (mark, changes) in [('-', &old), ('+', &new)] {
            let changed = apply(text, part.clone(), changes.iter().map(|(range, new)| (range, *new)));
            changed.lines().for_each(|line| difference.push_str(&format!("{mark}{}\n", printable(line))));
        }
    }
    difference
}

/// The whole lines that the edits touch.
fn parts(text: &str, edits: &[Edit]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = vec![];
    for edit in edits {
        let start = text[..edit.range.start].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[edit.range.end..].find('\n').map_or(text.len(), |newline| edit.range.end + newline);
        match parts.last_mut() {
            Some(last) if start <= last.end + 1 => last.end = last.end.max(end),
            _ => parts.push(start..end),
        }
    }
    parts
}

/// A line without what acts on a terminal, and not endless.
fn printable(line: &str) -> String {
    let line = line.trim_end();
    let mut shown = escape_except_tabs(&line.chars().take(LONGEST).collect::<String>());
    if line.chars().count() > LONGEST {
        shown.push('…');
    }
    shown
}
