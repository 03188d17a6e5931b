//! How much memory this process may use: the limit of its cgroup, else the memory of the machine.

use std::fs;
use std::path::{Path, PathBuf};

use regrow_gateway::shares::DEFAULT_BUDGET;

/// A quarter of it, and at least what is used where nothing is known.
pub(super) fn default_budget() -> usize {
    budget(available(&|path| fs::read_to_string(path).ok()))
}

fn budget(available: Option<u64>) -> usize {
    let quarter = available.map(|bytes| usize::try_from(bytes / 4).unwrap_or(usize::MAX));
    quarter.unwrap_or_default().max(DEFAULT_BUDGET)
}

/// The smallest limit of the cgroup and those around it, and the memory of the machine: what is the least.
fn available(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    // `0::/PATH` in version 2, `NUMBER:CONTROLLER,...:/PATH` in version 1.
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return vec![],
        };
        // Without a namespace of its own, a container sees the path that the host knows, which does not exist in it.
        let group = PathBuf::from(format!("{root}{path}"));
        let around = group.ancestors().filter(|folder| folder.starts_with(root));
        around.filter_map(|folder| read(&folder.join(file))?.trim().parse::<u64>().ok()).collect()
    });
    limits.chain(machine(read)).min()
}

fn machine(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let text = read(Path::new("/proc/meminfo"))?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"))?;
    total.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn of(files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        available(&read)
    }

    #[test]
    fn the_smallest_limit_of_the_cgroups_around_the_process_counts() {
        let machine = ("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
        assert_eq!(of(&[machine]), Some(16 * GIB));
        let version_2 = ("/proc/self/cgroup", "0::/a/b\n");
        let unlimited = ("/sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(of(&[machine, version_2, unlimited]), Some(16 * GIB));
        assert_eq!(
            of(&[machine, version_2, unlimited, ("/sys/fs/cgroup/a/memory.max", "2147483648\n")]),
            Some(2 * GIB)
        );
        let version_1 = ("/proc/self/cgroup", "12:cpu,cpuacct:/\n7:memory:/docker/x\n0::/\n");
        let limit = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        assert_eq!(of(&[machine, version_1, limit]), Some(GIB));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn the_budget_is_a_quarter_of_it_and_never_tiny() {
        assert_eq!(budget(Some(16 * GIB)), 4 << 30);
        assert_eq!([budget(Some(GIB / 2)), budget(None)], [256 << 20; 2]);
    }
}
