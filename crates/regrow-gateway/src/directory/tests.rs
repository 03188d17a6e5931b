//! Directories of made-up servers: what is listed can be looked up, and no server takes another's place.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::catalog::made_up::catalog;
use crate::tool_filter::Glob;

fn everything() -> Value {
    json!({ "capabilities": { "tools": {}, "prompts": {}, "resources": {} } })
}

fn offering(list: List, items: &[&str]) -> Arc<Catalog> {
    catalog(&everything(), &[(list, items)])
}

fn tools(names: &[&str]) -> Arc<Catalog> {
    let items: Vec<_> = names.iter().map(|name| json!({ "name": name }).to_string()).collect();
    offering(List::Tools, &items.iter().map(String::as_str).collect::<Vec<_>>())
}

fn resources(uris: &[&str]) -> Arc<Catalog> {
    let items: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri, "name": "n" }).to_string()).collect();
    offering(List::Resources, &items.iter().map(String::as_str).collect::<Vec<_>>())
}

fn templates(templates: &[&str]) -> Arc<Catalog> {
    let items: Vec<_> = templates.iter().map(|t| json!({ "uriTemplate": t }).to_string()).collect();
    offering(List::Templates, &items.iter().map(String::as_str).collect::<Vec<_>>())
}

fn listed(directory: &Directory, list: List, key: &str) -> Vec<String> {
    let page = directory.page(list, None, usize::MAX).expect("there is a first page");
    let items: Vec<Value> = serde_json::from_slice(&page.items).expect("it is an array");
    items.iter().map(|item| item[key].as_str().expect("each has one").to_owned()).collect()
}

fn asked<'a>(directory: &'a Directory, uri: &'a str) -> Vec<(usize, Cow<'a, str>)> {
    directory.resource(uri, |_| false).into_iter().collect()
}

#[test]
fn one_server_is_shown_as_it_is() {
    let raw = r#"{ "name" : "réad file!", "inputSchema":{"x":1.0} }"#;
    let directory = Directory::of(&[("files", offering(List::Tools, &[raw]))]);
    assert_eq!(directory.page(List::Tools, None, PAGE_SIZE).unwrap().items, format!("[{raw}]"));
    assert_eq!(directory.tool("réad file!"), Some((0, "réad file!")));
}

#[test]
fn several_servers_have_their_names_before_their_tools_and_nothing_else_changes() {
    let raw = r#"{"title":"T","name":"read","description":"name: read"}"#;
    let directory = Directory::of(&[("files", offering(List::Tools, &[raw])), ("web", tools(&["read"]))]);
    let page = directory.page(List::Tools, None, PAGE_SIZE).unwrap();
    let expected = r#"[{"title":"T","name":"files__read","description":"name: read"},{"name":"web__read"}]"#;
    assert_eq!(page, Page { items: expected.into(), next: None });
    assert_eq!(directory.tool("web__read"), Some((1, "read")));
    assert_eq!(directory.tool("read"), None);
    assert_eq!(directory.prompt("web__read"), None);
}

#[test]
fn whatever_is_listed_is_found_again_whatever_the_order() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut word = || -> String {
            (0..random.usize(1..=5)).map(|_| *random.choice(&['a', '_', '.', 'B']).expect("some")).collect()
        };
        let names: BTreeSet<String> = (0..4).map(|_| word()).collect();
        let owned: Vec<(String, BTreeSet<String>)> =
            names.into_iter().map(|name| (name, (0..12).map(|_| word()).collect())).collect();
        let mut servers: Vec<(&str, Arc<Catalog>)> = owned
            .iter()
            .map(|(name, names)| {
                (name.as_str(), tools(&names.iter().map(String::as_str).collect::<Vec<_>>()))
            })
            .collect();
        let look = |servers: &[(&str, Arc<Catalog>)]| -> BTreeSet<(String, String, String)> {
            let directory = Directory::of(servers);
            let listed = listed(&directory, List::Tools, "name");
            assert_eq!(listed.len(), directory.count(List::Tools), "seed {seed}");
            let found = listed.into_iter().map(|name| {
                let (server, tool) = directory.tool(&name).expect("what is listed is found");
                let (server, tool) = (servers[server].0.to_owned(), tool.to_owned());
                (name, server, tool)
            });
            found.collect()
        };
        let before = look(&servers);
        let things: usize =
            servers.iter().map(|(_, c)| c.listing(List::Tools).expect("made").items().len()).sum();
        let pairs: BTreeSet<_> = before.iter().map(|(_, server, tool)| (server, tool)).collect();
        let expected = if servers.len() == 1 { before.len() } else { things };
        assert_eq!((before.len(), pairs.len()), (expected, expected), "seed {seed}");
        random.shuffle(&mut servers);
        assert_eq!(before, look(&servers), "seed {seed}");
    }
}

#[test]
fn a_uri_of_several_servers_is_none_s_alone_and_all_can_be_read() {
    let directory = Directory::of(&[("a", resources(&["x:1", "x:2"])), ("b c", resources(&["x:1", "x:3"]))]);
    assert_eq!(
        listed(&directory, List::Resources, "uri"),
        ["regrow://a/x%3A1", "x:2", "regrow://b%20c/x%3A1", "x:3"]
    );
    assert_eq!(listed(&directory, List::Resources, "name"), ["n"; 4]);
    assert_eq!(asked(&directory, "x:1"), [], "which one is meant is not guessed");
    let returned = directory.resource("x:1", |server| server == "b c");
    assert_eq!(returned, Some((1, "x:1".into())), "a link in a result says whose it is");
    assert_eq!(asked(&directory, "regrow://b%20c/x%3A1"), [(1, "x:1".into())]);
    assert_eq!(
        asked(&directory, "regrow://b%20c/x%3A99"),
        [(1, "x:99".into())],
        "unlisted, but it names its server"
    );
    assert_eq!(asked(&directory, "x:3"), [(1, "x:3".into())]);
}

#[test]
fn what_is_not_listed_is_the_only_server_s_whose_template_claims_it() {
    let none = catalog(&json!({ "capabilities": { "tools": {} } }), &[]);
    let servers = [
        ("a", resources(&["x:1"])),
        ("b", templates(&["note://{id}"])),
        ("c", none),
        ("d", templates(&["{+any}"])),
        ("e", templates(&["file:///{+path}", "mail:{id}"])),
        ("f", templates(&["file:///home/{name}"])),
    ];
    let directory = Directory::of(&servers);
    let whom = |uri| asked(&directory, uri).iter().map(|(server, _)| *server).collect::<Vec<_>>();
    assert_eq!(whom("note://7"), [1], "a template for everything takes nothing");
    assert_eq!(whom("note://7/8"), [] as [usize; 0]);
    assert_eq!(whom("file:///home/x"), [] as [usize; 0], "two claim it");
    assert_eq!((whom("file:///etc"), whom("mail:1")), (vec![4], vec![4]));
    assert_eq!(whom("note://{id}"), [1], "a template itself, for completion");
}

#[test]
fn a_template_of_two_servers_can_be_filled_in_for_each() {
    let directory =
        Directory::of(&[("a", templates(&["file:///{path}"])), ("b", templates(&["file:///{path}"]))]);
    assert_eq!(
        listed(&directory, List::Templates, "uriTemplate"),
        ["regrow://a/file:///{path}", "regrow://b/file:///{path}"]
    );
    assert_eq!(asked(&directory, "regrow://b/file:///a%20b"), [(1, "file:///a%20b".into())]);
    assert_eq!(asked(&directory, "regrow://b/file:///{path}"), [(1, "file:///{path}".into())]);
}

fn filter(allow: Option<&[&str]>, deny: &[&str], prefix: Option<&str>) -> ToolFilter {
    let globs = |texts: &[&str]| texts.iter().map(|text| Glob::new(text)).collect::<Vec<_>>();
    let prefix = prefix.map(str::to_owned);
    ToolFilter { allow: allow.map(globs), deny: globs(deny), prefix, ..ToolFilter::default() }
}

#[test]
fn security_28_a_tool_that_is_not_offered_is_on_no_list_under_no_name() {
    let filter = filter(Some(&["get_*"]), &["get_secret"], None);
    let all = tools(&["get_a", "get_secret", "set"]);
    let one = Directory::filtered(&[("a", all.clone(), &filter)]);
    assert_eq!(listed(&one, List::Tools, "name"), ["get_a"]);
    assert_eq!(["get_a", "get_secret", "set"].map(|name| one.tool(name).is_some()), [true, false, false]);
    let names = ["get_b", "get_secret", "set", ""];
    assert_eq!(names.map(|name| one.unlisted(List::Tools, name)), [None; 4], "it has told what it has");
    assert_eq!(one.server_for_unlisted(List::Tools), None);
    assert_eq!(one.server_for_unlisted(List::Prompts), Some("a"));

    let two = Directory::filtered(&[("a", all, &filter), ("b", tools(&["set"]), &ToolFilter::default())]);
    assert_eq!(listed(&two, List::Tools, "name"), ["a__get_a", "b__set"]);
    assert_eq!(two.tool("a__get_a"), Some((0, "get_a")), "its place is that in the whole list");
}

#[test]
fn security_28_before_a_server_has_listed_its_tools_their_names_decide() {
    let silent: Arc<Catalog> = Arc::default();
    let filter = filter(Some(&["get_*"]), &["get_secret"], None);
    let one = Directory::filtered(&[("a", silent.clone(), &filter)]);
    let names = ["get_a", "get_secret", "set", "a__get_a"];
    assert_eq!(names.map(|name| one.unlisted(List::Tools, name)), [Some(("a", "get_a")), None, None, None]);
    let two = Directory::filtered(&[("a", silent.clone(), &filter), ("b", silent.clone(), &filter)]);
    let names = ["b__get_a", "b__get_secret", "get_a"];
    assert_eq!(names.map(|name| two.unlisted(List::Tools, name)), [Some(("b", "get_a")), None, None]);
    let reads = ToolFilter { read_only: true, ..ToolFilter::default() };
    let unknown = Directory::filtered(&[("a", silent, &reads)]);
    assert_eq!(unknown.unlisted(List::Tools, "get_a"), None, "whether it only reads is not known");
}

#[test]
fn tools_have_the_prefix_and_the_names_that_the_configuration_gives_them() {
    let mut renaming = filter(None, &["search"], Some("gh_"));
    renaming.rename = [("search_v2".to_owned(), "search".to_owned())].into();
    let git = || tools(&["search", "search_v2", "read.file"]);
    for servers in [1, 2] {
        let all = [("git", git(), &renaming), ("web", tools(&["search"]), &ToolFilter::default())];
        let directory = Directory::filtered(&all[..servers]);
        let names = &listed(&directory, List::Tools, "name")[..2];
        assert_eq!(names, ["gh_search", "gh_read_file"], "a denied tool leaves its name to others");
        assert_eq!(directory.tool("gh_search"), Some((0, "search_v2")));
        assert_eq!(["search_v2", "gh_search_v2", "git__search"].map(|name| directory.tool(name)), [None; 3]);
    }
    let silent =
        Directory::filtered(&[("git", Arc::default(), &renaming), ("web", Arc::default(), &renaming)]);
    assert_eq!(silent.unlisted(List::Tools, "gh_search"), None, "it may be either's");

    let bare = filter(None, &[], Some(""));
    let directory =
        Directory::filtered(&[("a", tools(&["x", "y"]), &bare), ("b", tools(&["y", "z"]), &bare)]);
    let names = listed(&directory, List::Tools, "name");
    assert_eq!((&*names[0], &*names[3]), ("x", "z"));
    assert!(names[1].starts_with("y_") && names[2].starts_with("y_") && names[1] != names[2], "{names:?}");
}

#[test]
fn the_revision_of_the_tools_is_that_of_those_that_are_offered() {
    let filter = filter(None, &["b"], None);
    let of = |names: &[&str]| Directory::filtered(&[("s", tools(names), &filter)]).revision(List::Tools);
    assert_eq!(of(&["a"]), of(&["a", "b"]));
    assert_ne!(of(&["a"]), of(&["a", "c"]));
}

fn pages(directory: &Directory, size: usize) -> Vec<Vec<String>> {
    let mut pages = vec![];
    let mut cursor: Option<String> = None;
    loop {
        let page = directory.page(List::Tools, cursor.as_deref(), size).expect("the cursor is ours");
        let items: Vec<Value> = serde_json::from_slice(&page.items).expect("it is an array");
        pages.push(items.iter().map(|item| item["name"].as_str().expect("named").to_owned()).collect());
        cursor = page.next;
        if cursor.is_none() {
            return pages;
        }
    }
}

#[test]
fn pages_of_any_size_make_up_the_whole_list() {
    let directory = Directory::of(&[("s", tools(&["a", "b", "c", "d", "e"]))]);
    assert_eq!(pages(&directory, 2), [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
    for size in [0, 1, 3, 5, 6, usize::MAX] {
        assert_eq!(pages(&directory, size).concat(), ["a", "b", "c", "d", "e"], "{size}");
    }
    assert_eq!(pages(&Directory::of(&[]), 2), [Vec::<String>::new()]);
}

#[test]
fn the_whole_list_is_written_once_and_shared() {
    let directory = Directory::of(&[("s", tools(&["a", "b"]))]);
    let page = || directory.page(List::Tools, None, PAGE_SIZE).expect("there is one").items;
    assert_eq!(page().as_ptr(), page().as_ptr());
}

#[test]
fn a_reader_goes_on_behind_the_same_item_when_the_list_has_changed() {
    let of = |names: &[&str]| Directory::of(&[("s", tools(names))]);
    let next = |directory: Directory, cursor: &str| {
        let page = directory.page(List::Tools, Some(cursor), 9).expect("the cursor is ours");
        String::from_utf8(page.items.to_vec()).expect("it is text")
    };
    let cursor = of(&["a", "b", "c", "d"]).page(List::Tools, None, 2).unwrap().next.unwrap();
    assert_eq!(next(of(&["a", "b", "c"]), &cursor), r#"[{"name":"c"}]"#);
    assert_eq!(next(of(&["new", "a", "b", "c"]), &cursor), r#"[{"name":"c"}]"#);
    assert_eq!(next(of(&["b", "c", "d"]), &cursor), r#"[{"name":"c"},{"name":"d"}]"#);
    assert_eq!(next(of(&["x", "y", "z"]), &cursor), r#"[{"name":"z"}]"#);
    assert_eq!(next(of(&["x"]), &cursor), "[]");
    assert_eq!(next(of(&[]), &cursor), "[]");
}

#[test]
fn cursors_that_are_not_ours_are_refused() {
    let directory = Directory::of(&[("s", tools(&["a", "b"]))]);
    for cursor in ["", "0-0", "1", "x-y", "-1-2", "1-2-3", "fffffffffffffffff-0", "+1-2", "1-02", "A-2"] {
        assert_eq!(directory.page(List::Tools, Some(cursor), 9), Err(BadCursor), "{cursor}");
    }
}

#[test]
fn the_revision_of_a_list_changes_with_what_clients_see_of_it_and_only_then() {
    let of = |tool: &str, uri: &str| {
        let tool = json!({ "name": tool }).to_string();
        let uri = json!({ "uri": uri }).to_string();
        let one = catalog(&everything(), &[(List::Tools, &[&tool]), (List::Resources, &[&uri])]);
        let directory = Directory::of(&[("a", one), ("b", tools(&["x"]))]);
        [List::Tools, List::Prompts, List::Resources].map(|list| directory.revision(list))
    };
    let [tools, prompts, resources] = of("a", "u:1");
    assert_eq!(of("a", "u:1"), [tools, prompts, resources]);
    let [tools_now, prompts_now, resources_now] = of("b", "u:1");
    assert_ne!(tools, tools_now);
    assert_eq!((prompts, resources), (prompts_now, resources_now));
}

#[test]
fn capabilities_are_those_of_all_servers_and_a_server_that_was_never_heard_may_have_any() {
    let with = |capabilities: Value| catalog(&json!({ "capabilities": capabilities }), &[]);
    let (one, two) = (
        with(json!({ "tools": {} })),
        with(json!({ "tools": {}, "resources": { "subscribe": true }, "logging": {} })),
    );
    assert_eq!(
        Directory::of(&[("a", one.clone())]).capabilities(),
        json!({ "tools": { "listChanged": true } })
    );
    assert_eq!(
        Directory::of(&[("a", one.clone()), ("b", two)]).capabilities(),
        json!({ "tools": { "listChanged": true }, "resources": { "listChanged": true, "subscribe": true }, "logging": {} })
    );
    let unheard = Directory::of(&[("a", one), ("b", Arc::new(Catalog::default()))]).capabilities();
    assert_eq!(unheard.as_object().unwrap().len(), 5);
    assert_eq!(unheard["resources"], json!({ "listChanged": true, "subscribe": true }));
}

#[test]
fn instructions_stand_under_the_name_of_their_server_and_are_bounded() {
    let with = |text: &str| catalog(&json!({ "capabilities": {}, "instructions": text }), &[]);
    let one = Directory::of(&[("a", with("Be kind."))]).instructions();
    assert_eq!(one.as_deref(), Some("Be kind."));
    let two = Directory::of(&[("a", with("Be kind.\n")), ("b", with(" ")), ("c\nd", with("Be quick."))])
        .instructions();
    assert_eq!(two.as_deref(), Some("# a\n\nBe kind.\n\n# c\\nd\n\nBe quick."));
    assert_eq!(Directory::of(&[("a", with("")), ("b", with(""))]).instructions(), None);
    let long = with(&"x".repeat(16_000));
    let many: Vec<_> = (0..20).map(|_| ("s", long.clone())).collect();
    let text = Directory::of(&many).instructions().unwrap();
    assert!(text.len() < 66_000 && text.ends_with("are omitted.)"));
}
