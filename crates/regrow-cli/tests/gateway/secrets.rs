//! Scenario 43 and SECURITY 15: a secret is planted everywhere it may be, and looked for everywhere it must not be.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::client::PATIENCE;
use crate::evidence::{children_of, command_line, wait_until};
use crate::guest::{ERAS, Era, Guest};
use crate::house::{House, Place, REGROW, chaos, done, remote};
use crate::recorder::Recorder;
use crate::site::{self, Site};

const SECRETS: [&str; 7] = [
    "env-5ecret-horse",
    "plain-5ecret-horse",
    "header-5ecret-horse",
    "query-5ecret-horse",
    "userinfo-5ecret-horse",
    "token-5ecret-horse",
    "arg-5ecret-horse",
];

fn assert_unseen(place: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in {place}: {text}");
    }
}

/// Everything below this folder.
fn search(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => search(&path),
            path => assert_unseen(
                &path.display().to_string(),
                &String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()),
            ),
        }
    }
}

fn look_everywhere(place: &Place, house: &House) {
    let bearer = ("Authorization", &*place.operator(house));
    for accept in ["application/json", "text/html"] {
        let (status, page) = house.page("/status", &[bearer, ("Accept", accept)]);
        assert_eq!(status, 200);
        assert!(page.contains("talks"), "{page}");
        assert_unseen(accept, &page);
    }
    for path in ["/metrics", "/readyz", "/livez"] {
        assert_unseen(path, &house.page(path, &[bearer]).1);
    }
    for words in [
        &["status"][..],
        &["status", "--json"],
        &["logs", "talks"],
        &["logs", "fails"],
        &["logs", "far"],
        &["logs", "wrong"],
    ] {
        let mut command = place.command(words);
        let (_, said, log) = done(command.env("REGROW_URL", house.url()));
        assert!(!said.is_empty(), "{words:?}: {log}");
        assert_unseen(&words.join(" "), &(said + &log));
    }
    let mut family = children_of(house.pid());
    family.push(house.pid());
    for pid in family {
        let line = command_line(pid);
        if !line.contains("--api-key") {
            assert_unseen("an argument", &line); // Only where the operator put it.
        }
    }
    assert_unseen("the log", &house.log().join("\n"));
    search(&place.path("cache"));
}

#[test]
fn scenario_43_a_secret_is_in_no_log_error_metric_page_argument_or_file() {
    let recorder = Recorder::start();
    let url =
        recorder.url.replace("http://", "http://user:userinfo-5ecret-horse@") + "?key=query-5ecret-horse";
    let nowhere = "http://user:userinfo-5ecret-horse@127.0.0.1:9/mcp?key=query-5ecret-horse";
    let header = json!({ "X-Key": "header-5ecret-horse" });
    let args = json!(["-c", "exec \"$0\" chaos-server", REGROW, "--api-key=arg-5ecret-horse"]);
    let place = Place::new([
        (
            "talks",
            chaos("refuse-discover log-secret=CHAOS_SECRET log-secret=PLAIN")
                .variable("CHAOS_SECRET", "${SECRET_OF_OURS}")
                .variable("PLAIN", "plain-5ecret-horse"),
        ),
        (
            "fails",
            chaos("refuse-discover log-secret=PLAIN exit-at-start=3")
                .variable("PLAIN", "plain-5ecret-horse")
                .option("budget", "1/60"),
        ),
        ("argued", chaos("refuse-discover").member("command", "sh").member("args", args)),
        ("far", remote(&url).member("headers", header.clone())),
        ("wrong", remote(nowhere).member("headers", header).option("budget", "1/60")),
    ])
    .variable("SECRET_OF_OURS", "env-5ecret-horse")
    .variable("TOKEN", "token-5ecret-horse")
    .options(&["--token-env", "TOKEN", "--log-level", "debug"]);
    let house = place.start();
    for era in ERAS {
        let mut guest = Guest::new(&house, era).token("token-5ecret-horse");
        assert_unseen("the greeting", &guest.greet().to_string());
        let list = guest.request("tools/list", json!({}));
        assert!(list.to_string().contains("far__say"), "{list}");
        assert_unseen("a list", &list.to_string());
        // A server may say to its client what it likes; but it is written down nowhere.
        let answer = guest.request("tools/call", json!({ "name": "talks__secret", "arguments": {} }));
        assert!(answer.to_string().contains("env-5ecret-horse"), "handed on as it is: {answer}");
        assert_eq!(guest.call("far__say", json!({ "x": "plain-5ecret-horse" })), "said");
        for (tool, arguments) in [
            ("talks__die", json!({ "key": "plain-5ecret-horse" })),
            ("fails__echo", json!({})),
            ("wrong__echo", json!({})),
        ] {
            let (said, fault) = guest.failing_call(tool, arguments);
            assert_unseen(tool, &format!("{said} {fault}"));
        }
    }
    assert!(recorder.heads().contains("x-key: header-5ecret-horse"), "the server itself gets it");
    look_everywhere(&place, &house);
    // Nor is it said while it ends, or by a file that is wrong.
    place.write_config(r#"{ "mcpServers": { "talks": { "command": "x", "env": { "A": ["plain-5ecret-horse"] }, "regrow": { "callTimeout": "soon" } } } }"#);
    house.wait_for_log("not served");
    assert_unseen("the log", &house.log().join("\n"));
    house.end();
    search(&place.path("cache"));
}

/// A gateway with a cache. Its server `local` hangs at the start as long as there is a file `hang`, so that what a client sees of it is cached.
struct Cache {
    place: Place,
    _site: Site,
}

impl Cache {
    fn filled() -> Cache {
        let site = Site::new(site::Era::Modern, "");
        let args =
            json!(["-c", "[ -e \"$CHAOS_DIR/hang\" ] && exec sleep 60; exec \"$0\" chaos-server", REGROW]);
        let local = chaos("refuse-discover tools=echo").member("command", "sh").member("args", args);
        let place = Place::new([("local", local), ("far", remote(&site.url()))]);
        let cache = Cache { place: place.options(&["--list-wait", "100ms"]), _site: site };
        let house = cache.place.start();
        cache.wait_until_written();
        house.end();
        cache
    }

    fn folder(&self) -> PathBuf {
        self.place.path("cache/regrow")
    }

    fn eras(&self) -> PathBuf {
        self.folder().join("eras.json")
    }

    fn catalogs(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.folder().join("catalogs")).into_iter().flatten();
        files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect()
    }

    /// The cached catalog of `local`, the server with one tool.
    fn local(&self) -> PathBuf {
        let is_local = |path: &PathBuf| !fs::read_to_string(path).unwrap().contains("\"count\"");
        self.catalogs().into_iter().find(is_local).unwrap()
    }

    fn wait_until_written(&self) {
        let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        wait_until("everything is cached", PATIENCE, || {
            // A catalog is written as soon as the first list of its server is known, and again with the others.
            let catalogs = self.catalogs();
            let has = |tool: &str| {
                let has = |path: &&PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(tool));
                catalogs.iter().filter(has).count()
            };
            let is_complete = has("\"echo\"") == 2 && has("\"count\"") == 1;
            is_complete && catalogs.iter().chain([&self.eras()]).all(|path| is_file(path))
        });
    }

    /// Whether a client sees the tool `planted`, which is only in the cache, while the server hangs.
    fn shows_planted_tool(&self) -> bool {
        let hang = self.place.journal("local").dir().join("hang");
        fs::write(&hang, "").unwrap();
        let house = self.place.start();
        let shows = || Guest::of(&house, Era::Legacy).tools().contains(&"local__planted".to_owned());
        let is_ignored = || house.log().iter().any(|line| line.contains("ignoring a cache file"));
        // On a busy machine the cache may be read after the list that waits for it a tenth of a second.
        wait_until("the file is used, or it is logged that it is not", PATIENCE, || is_ignored() || shows());
        let shows = shows();
        assert_ne!(shows, is_ignored(), "{}", house.log().join("\n"));
        house.end();
        fs::remove_file(&hang).unwrap();
        shows
    }
}

#[test]
fn what_is_cached_is_for_its_user_alone() {
    fn check(path: &Path) {
        let found = fs::symlink_metadata(path).unwrap();
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.permissions().mode() & 0o777, expected, "{path:?}");
        for entry in fs::read_dir(path).into_iter().flatten() {
            check(&entry.unwrap().path());
        }
    }
    check(&Cache::filled().place.path("cache"));
}

#[test]
fn no_link_in_the_cache_is_written_through_or_read_and_nothing_that_others_can_change() {
    let cache = Cache::filled();
    let local = cache.local();
    let planted = fs::read_to_string(&local).unwrap().replace("\"echo\"", "\"planted\"");
    fs::write(&local, &planted).unwrap();
    assert!(cache.shows_planted_tool(), "a file of the user is used");

    let chmod = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    chmod(&local, 0o622);
    assert!(!cache.shows_planted_tool(), "others can write the file");
    chmod(&local, 0o600);
    chmod(&cache.folder().join("catalogs"), 0o777);
    assert!(!cache.shows_planted_tool(), "others can write the folder");
    chmod(&cache.folder().join("catalogs"), 0o700);
    if chown(&local, Some(65534), None).is_ok() {
        assert!(!cache.shows_planted_tool(), "the file belongs to another user");
        chown(&local, Some(0), None).unwrap(); // Only root can give files away.
    }

    // A link in the place of the folder, of our folder in it, and of a file.
    let victim = cache.place.path("victim");
    for folder in [cache.folder(), cache.folder().join("catalogs")] {
        fs::rename(&folder, &victim).unwrap();
        symlink(&victim, &folder).unwrap();
        assert!(!cache.shows_planted_tool(), "{folder:?} is a link");
        fs::remove_file(&folder).unwrap();
        fs::rename(&victim, &folder).unwrap();
        assert_eq!(fs::read_to_string(&local).unwrap(), planted, "nothing was written through it");
    }
    fs::rename(&local, &victim).unwrap();
    symlink(&victim, &local).unwrap();
    assert!(!cache.shows_planted_tool(), "the file is a link");

    let eras = cache.place.path("eras");
    fs::remove_file(cache.eras()).unwrap();
    fs::write(&eras, "{}").unwrap();
    symlink(&eras, cache.eras()).unwrap();
    let house = cache.place.start();
    cache.wait_until_written();
    house.end();
    assert_eq!(fs::read_to_string(&victim).unwrap(), planted);
    assert_eq!(fs::read_to_string(&eras).unwrap(), "{}");
}
