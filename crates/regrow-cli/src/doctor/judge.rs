//! Which findings follow from the facts; pure.

mod machine;
mod servers;

use super::facts::Facts;
use super::finding::{Finding, Subject};

/// What is broken first; in the order of the facts otherwise.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let of_files = facts.files.iter().flat_map(|file| servers::of_file(file, &facts.machine));
    let mut findings: Vec<Finding> = vec![];
    for finding in of_files.chain(machine::findings(facts)) {
        match findings.iter_mut().find(|other| is_same(other, &finding)) {
            Some(other) => other.subject.servers.extend(finding.subject.servers),
            None => findings.push(finding),
        }
    }
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// Whether two findings differ only in the server. One for all is enough: five servers may wait for the same program.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let without_server = |it: &Finding| {
        let subject = Subject { servers: vec![], line: None, ..it.subject.clone() };
        Finding { subject, ..it.clone() }
    };
    !other.subject.servers.is_empty() && without_server(one) == without_server(other)
}

#[cfg(test)]
mod tests;
