//! Which files a sandboxed server may use, and what a kernel leaves open; pure.

use std::path::PathBuf;

use super::{Sandbox, Support};

/// What programs need to run: they may read and run these, as far as they exist. No file of a user is among them.
const READ: [&str; 40] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    // The kernel denies the memory, environment and open files of processes outside of the sandbox.
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/random",
    "/dev/urandom",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
    "/run/systemd/resolve",
];
/// These they may write as well.
const WRITE: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Access to a file, or to a folder and everything in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) path: PathBuf,
    pub(super) may_write: bool,
    /// The list of the configuration that names it; then it must exist.
    pub(super) list: Option<&'static str>,
}

/// All rules for a server whose program is this file.
pub(super) fn rules(sandbox: &Sandbox, program: Option<PathBuf>) -> Vec<Rule> {
    let needed = |path: PathBuf, may_write| Rule { path, may_write, list: None };
    let named = |paths: &[PathBuf], list| -> Vec<Rule> {
        let rule = |path: &PathBuf| Rule { path: path.clone(), may_write: list == "write", list: Some(list) };
        paths.iter().map(rule).collect()
    };
    let mut rules: Vec<Rule> = READ.iter().map(|path| needed(path.into(), false)).collect();
    rules.extend(WRITE.iter().map(|path| needed(path.into(), true)));
    rules.extend(program.map(|program| needed(program, false)));
    rules.extend(named(&sandbox.read, "read"));
    rules.extend(named(&sandbox.write, "write"));
    rules
}

/// What a kernel with this support leaves open of a sandbox.
pub(super) fn gaps(sandbox: &Sandbox, support: Support) -> Vec<&'static str> {
    let mut gaps = vec![];
    if support.landlock < 1 {
        gaps.push("it does not limit files (Landlock is missing: it takes Linux 5.13 and lsm=landlock)");
    } else if support.landlock < 3 {
        gaps.push("it does not keep the server from emptying files (that takes Linux 6.2)");
    }
    if (1..6).contains(&support.landlock) {
        gaps.push("it does not keep the server from signalling other processes (that takes Linux 6.12)");
    }
    if !sandbox.net && !support.seccomp {
        gaps.push("it does not limit the network (the kernel has no seccomp filters)");
    }
    gaps
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_named_must_exist_and_what_programs_need_is_there_in_any_case() {
        let sandbox =
            Sandbox { read: vec!["/data".into()], write: vec!["/work".into()], ..Sandbox::default() };
        let rules = rules(&sandbox, Some("/opt/server".into()));
        let found = |path: &str| rules.iter().find(|rule| rule.path == Path::new(path)).unwrap();
        assert_eq!((found("/data").may_write, found("/data").list), (false, Some("read")));
        assert_eq!((found("/work").may_write, found("/work").list), (true, Some("write")));
        for path in ["/opt/server", "/usr", "/lib64", "/etc/ld.so.cache"] {
            assert_eq!((found(path).may_write, found(path).list), (false, None), "{path}");
        }
        assert!(found("/dev/null").may_write);
        let can_write = rules.iter().filter(|rule| rule.may_write && !rule.path.starts_with("/dev"));
        assert_eq!(can_write.count(), 1, "what is not named is not written");
        for path in ["/", "/etc", "/home", "/root", "/tmp", "/run", "/var", "/dev"] {
            assert!(rules.iter().all(|rule| rule.path != Path::new(path)), "{path}");
        }
    }

    #[test]
    fn each_gap_of_a_kernel_is_named() {
        let count = |net, landlock, seccomp| {
            gaps(&Sandbox { net, ..Sandbox::default() }, Support { landlock, seccomp }).len()
        };
        assert_eq!([0, 1, 2, 3, 5, 6, 9].map(|abi| count(false, abi, true)), [1, 2, 2, 1, 1, 0, 0]);
        assert_eq!((count(false, 6, false), count(true, 6, false)), (1, 0), "where the network is allowed");
    }
}
