//! Which findings follow from the facts; pure.

mod machine;
mod servers;

use super::facts::Facts;
use super::finding::Finding;

/// What is broken first; in the order of the facts otherwise.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let of_files = facts.files.iter().flat_map(|file| servers::of_file(file, &facts.machine));
    let mut findings: Vec<Finding> = of_files.chain(machine::findings(facts)).collect();
    findings.sort_by_key(|finding| finding.level);
    findings
}

#[cfg(test)]
mod tests;
