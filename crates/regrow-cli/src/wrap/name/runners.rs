//! Programs that run others, and which of their words say what.

use super::spec;

/// What a launcher runs, and in which folder, where it says.
pub(super) struct Launch {
    pub(super) what: Runs,
    pub(super) folder: Option<String>,
}

pub(super) enum Runs {
    /// It is no launcher.
    Itself,
    /// Nothing that its words tell.
    Nothing,
    Package(String),
    Path(String),
    Name(String),
    /// A command with a name of its own.
    Command(Vec<String>),
}

/// Options that take the next word, by launcher. Others are flags, or hold their value after `=`.
const NPX: &str = "-p --package -w --workspace --prefix --registry --cache";
const UV: &str = "--from --with --with-editable --with-requirements -p --python --directory --project --package --extra \
    --group --only-group --no-group --env-file --index --index-url --default-index --extra-index-url -i -f \
    --find-links --cache-dir --config-file --constraints -c --overrides -P --upgrade-package \
    --refresh-package --isolated-package --exclude-newer --color --link-mode --resolution --prerelease \
    --python-platform";
const PYTHON: &str = "-W -X --check-hash-based-pycs";
const NODE: &str = "-r --require --import --loader --experimental-loader --env-file -C --conditions --input-type --tsconfig \
    -P --project --title --icu-data-dir";
const DENO: &str = "-c --config --import-map --env-file --lock --cert -L --log-level --cwd";
/// Of a container's many options these are flags; all others take a value.
const CONTAINER_FLAGS: &str = "--rm --init --interactive --tty --detach --privileged --read-only --publish-all --quiet --no-healthcheck \
    --oom-kill-disable --sig-proxy --help --no-deps --no-TTY --build --service-ports --use-aliases \
    --remove-orphans --quiet-pull --debug --tls --tlsverify";
const CONTAINER_LETTERS: &str = "itdPqTD";
const SHELLS: [&str; 8] = ["sh", "bash", "zsh", "dash", "fish", "ksh", "ash", "busybox"];
/// Launchers that put their own words before `--`.
const BEFORE_DASHES: [&str; 9] =
    ["op", "doppler", "infisical", "mise", "aws-vault", "chamber", "dotenv", "dotenvx", "regrow"];
/// Wrappers: options with a value, and how many words of their own stand before the command.
const WRAPPERS: [(&str, &str, usize); 13] = [
    ("timeout", "-s --signal -k --kill-after", 1),
    ("gtimeout", "-s --signal -k --kill-after", 1),
    ("nice", "-n --adjustment", 0),
    ("ionice", "-c -n --class --classdata", 0),
    ("nohup", "", 0),
    ("setsid", "", 0),
    ("stdbuf", "-i -o -e", 0),
    ("time", "-f -o", 0),
    ("sudo", "-u -g -C -D -h -p -R -T", 0),
    ("doas", "-u -C", 0),
    ("exec", "-a", 0),
    ("command", "", 0),
    ("caffeinate", "-t -w", 0),
];

/// What this launcher runs when it is given these words.
pub(super) fn run_by(launcher: &str, words: &[String]) -> Launch {
    if let Some((_, with_value, own)) = WRAPPERS.iter().find(|(name, ..)| *name == launcher) {
        let (rest, _) = after_options(words, with_value);
        return command(rest.get(*own..).unwrap_or_default());
    }
    if SHELLS.contains(&launcher) {
        return shell(words);
    }
    if BEFORE_DASHES.contains(&launcher) {
        let dashes = words.iter().position(|word| word == "--");
        return dashes.map_or(what(Runs::Nothing), |dashes| command(&words[dashes + 1..]));
    }
    let is_python = launcher.strip_prefix("python").or(launcher.strip_prefix("pypy"));
    if is_python.is_some_and(|version| version.chars().all(|letter| letter.is_ascii_digit() || letter == '.'))
    {
        return python(words);
    }
    match launcher {
        "env" => env(words),
        "npx" | "pnpx" | "bunx" => npx(words),
        "npm" | "pnpm" | "yarn" => npm(words),
        "uvx" => uvx(words),
        "uv" => uv(words),
        "pipx" => after_verbs(words, &["run"], "--spec --python --pip-args", Runs::Package),
        "py" => python(words),
        "poetry" | "pdm" | "hatch" | "rye" | "pixi" => match after_options(words, "-C --directory -p").0 {
            [verb, rest @ ..] if verb == "run" => command(after_options(rest, "-e --environment").0),
            _ => what(Runs::Nothing),
        },
        "conda" | "mamba" | "micromamba" => match words {
            [verb, rest @ ..] if verb == "run" => {
                command(after_options(rest, "-n --name -p --prefix --cwd").0)
            }
            _ => what(Runs::Nothing),
        },
        "node" | "nodejs" | "tsx" | "ts-node" => first(after_options(words, NODE).0, Runs::Path),
        "bun" => match after_options(words, NODE).0 {
            [verb, rest @ ..] if verb == "x" => npx(rest),
            [verb, rest @ ..] if verb == "run" => first(after_options(rest, NODE).0, Runs::Path),
            rest => first(rest, Runs::Path),
        },
        "deno" => after_verbs(words, &["run", "serve", "task"], DENO, |script| {
            let of_registry = ["jsr:", "npm:"].iter().find_map(|kind| script.strip_prefix(kind));
            of_registry.map_or(Runs::Path(script.clone()), |spec| Runs::Package(spec.to_owned()))
        }),
        "java" => match value_of(words, &["-jar"]) {
            Some(jar) => what(Runs::Path(jar)),
            None => first(after_options(words, "-cp -classpath -p -m").0, |class| {
                Runs::Name(spec::module(&class))
            }),
        },
        "dotnet" => match value_of(words, &["--project"]) {
            Some(project) => what(Runs::Name(project_name(&project))),
            None => after_verbs(words, &["run", "exec", "tool"], "", Runs::Path),
        },
        "go" => after_verbs(words, &["run"], "-C -tags", Runs::Package),
        "cargo" => match value_of(words, &["--bin", "-p", "--package"]) {
            Some(name) => what(Runs::Name(name)),
            None => what(Runs::Nothing),
        },
        "ruby" | "php" | "perl" => first(after_options(words, "-I -r -d").0, Runs::Path),
        "nix" => after_verbs(words, &["run", "shell"], "--extra-experimental-features", |flake| {
            Runs::Package(flake.rsplit(['#', '/']).next().unwrap_or_default().to_owned())
        }),
        "docker" | "podman" | "nerdctl" => container(words),
        "cmd" => match words {
            [slash, rest @ ..] if slash.eq_ignore_ascii_case("/c") => command(rest),
            _ => what(Runs::Nothing),
        },
        _ if is_assignment(launcher) => command(words),
        _ => what(Runs::Itself),
    }
}

fn env(words: &[String]) -> Launch {
    if let Some(script) = value_of(words, &["-S", "--split-string"]) {
        // A kernel hands over what follows `-S` as one word, a person as several.
        let at = words.iter().position(|word| *word == script).map_or(words.len(), |at| at + 1);
        let all: Vec<String> = split(&script).into_iter().chain(words[at..].iter().cloned()).collect();
        return command(&all);
    }
    let (rest, folder) = after_options(words, "-u --unset -C --chdir");
    let start = rest.iter().position(|word| !is_assignment(word)).unwrap_or(rest.len());
    Launch { folder, ..command(&rest[start..]) }
}

fn npx(words: &[String]) -> Launch {
    if let Some(script) = value_of(words, &["-c", "--call"]) {
        return shell(&["-c".to_owned(), script]);
    }
    first(after_options(words, NPX).0, Runs::Package)
}

fn npm(words: &[String]) -> Launch {
    let with_value = "--prefix -C --dir --cwd --filter -F -w --workspace";
    let (rest, folder) = after_options(words, with_value);
    let ran = match rest {
        [verb, rest @ ..] if ["exec", "x", "dlx"].contains(&verb.as_str()) => return npx(rest),
        [verb, rest @ ..] if ["run", "run-script"].contains(&verb.as_str()) => {
            after_options(rest, with_value).0.first()
        }
        rest => rest.first(),
    };
    // `start` says nothing; the folder does.
    let by_folder = folder.as_deref().map(|folder| Runs::Name(spec::program(folder)));
    Launch { what: by_folder.or(ran.cloned().map(Runs::Name)).unwrap_or(Runs::Nothing), folder }
}

fn uvx(words: &[String]) -> Launch {
    let (rest, _) = after_options(words, UV);
    first(rest, Runs::Package)
}

fn uv(words: &[String]) -> Launch {
    let (rest, outer) = after_options(words, UV);
    match rest {
        [verb, run, rest @ ..] if verb == "tool" && run == "run" => uvx(rest),
        [verb, rest @ ..] if verb == "run" => {
            let (target, inner) = after_options(rest, UV);
            let options = &rest[..rest.len() - target.len()];
            let is_module = options.iter().any(|word| word == "-m" || word == "--module");
            let folder = inner.or(outer);
            match target.first() {
                Some(module) if is_module => what(Runs::Name(spec::module(module))),
                _ => Launch { folder, ..command(target) },
            }
        }
        _ => what(Runs::Nothing),
    }
}

fn python(words: &[String]) -> Launch {
    let (rest, _) = after_options(words, PYTHON);
    let options = &words[..words.len() - rest.len()];
    let last = options.last().map(String::as_str);
    match last {
        Some("-m") => first(rest, |module| Runs::Name(spec::module(&module))),
        Some("-c" | "-") => what(Runs::Nothing),
        _ => first(rest, Runs::Path),
    }
}

/// `-c SCRIPT`, or the file of a script.
fn shell(words: &[String]) -> Launch {
    let is_command = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let Some(at) = words.iter().take_while(|word| word.starts_with('-')).position(is_command) else {
        return first(after_options(words, "-o --rcfile --init-file").0, Runs::Path);
    };
    let script = words.get(at + 1).map(String::as_str).unwrap_or_default();
    // The last command is the server; those before it prepare.
    let mut commands: Vec<Vec<String>> = vec![vec![]];
    for word in split_script(script) {
        match word.as_str() {
            "&&" | "||" | ";" | "&" | "|" | "\n" => commands.push(vec![]),
            _ => commands.last_mut().expect("it has one from the start").push(word),
        }
    }
    let last = commands.into_iter().rfind(|command| !command.is_empty()).unwrap_or_default();
    let start = last.iter().position(|word| !is_assignment(word)).unwrap_or(last.len());
    command(&last[start..])
}

fn container(words: &[String]) -> Launch {
    match after_container_options(words) {
        [group, rest @ ..] if ["container", "compose"].contains(&group.as_str()) => container(rest),
        [verb, rest @ ..] if ["run", "exec", "create"].contains(&verb.as_str()) => {
            first(after_container_options(rest), |image| Runs::Name(spec::image(&image)))
        }
        _ => what(Runs::Nothing),
    }
}

fn after_container_options(words: &[String]) -> &[String] {
    let mut rest = words;
    while let [word, after @ ..] = rest {
        let Some(letters) = word.strip_prefix('-') else { break };
        let is_flag = word.contains('=')
            || CONTAINER_FLAGS.split(' ').any(|flag| flag == word)
            || (!letters.starts_with('-')
                && letters.chars().all(|letter| CONTAINER_LETTERS.contains(letter)));
        rest = if is_flag { after } else { after.get(1..).unwrap_or_default() };
    }
    rest
}

/// The words after options, and the folder that one of them named. `--` ends them.
fn after_options<'a>(words: &'a [String], with_value: &str) -> (&'a [String], Option<String>) {
    let takes_next = |option: &str| with_value.split(' ').any(|known| known == option);
    const FOLDERS: [&str; 6] = ["--directory", "--project", "--prefix", "--chdir", "--cwd", "--dir"];
    let mut folder = None;
    let mut rest = words;
    while let [word, after @ ..] = rest {
        if word == "--" {
            return (after, folder);
        }
        if !word.starts_with('-') || word == "-" {
            break;
        }
        let (option, mut value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word.as_str(), None),
        };
        rest = after;
        if value.is_none() && takes_next(option) {
            value = after.first().map(String::as_str);
            rest = after.get(1..).unwrap_or_default();
        }
        if FOLDERS.contains(&option) {
            folder = value.map(str::to_owned).or(folder);
        }
        // What follows these is no option any more, whatever it looks like.
        if ["-m", "-c", "--module"].contains(&option) && !takes_next(option) {
            break;
        }
    }
    (rest, folder)
}

/// What follows one of these verbs, or stands there without.
fn after_verbs(
    words: &[String],
    verbs: &[&str],
    with_value: &str,
    then: impl FnOnce(String) -> Runs,
) -> Launch {
    let (rest, _) = after_options(words, with_value);
    match rest {
        [verb, rest @ ..] if verbs.contains(&verb.as_str()) => first(after_options(rest, with_value).0, then),
        rest => first(rest, then),
    }
}

fn value_of(words: &[String], options: &[&str]) -> Option<String> {
    words.iter().enumerate().find_map(|(number, word)| match word.split_once('=') {
        Some((option, value)) if options.contains(&option) => Some(value.to_owned()),
        _ if options.contains(&word.as_str()) => words.get(number + 1).cloned(),
        _ => None,
    })
}

fn project_name(project: &str) -> String {
    let name = spec::program(project);
    ["csproj", "fsproj", "vbproj"]
        .iter()
        .find_map(|kind| name.strip_suffix(kind)?.strip_suffix('.'))
        .unwrap_or(&name)
        .to_owned()
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

fn command(words: &[String]) -> Launch {
    what(if words.is_empty() { Runs::Nothing } else { Runs::Command(words.to_vec()) })
}

fn first(words: &[String], then: impl FnOnce(String) -> Runs) -> Launch {
    what(words.first().cloned().map_or(Runs::Nothing, then))
}

fn what(what: Runs) -> Launch {
    Launch { what, folder: None }
}

/// A line as a shell would split it, as far as a name needs it.
pub(super) fn split(line: &str) -> Vec<String> {
    split_script(line).into_iter().filter(|word| !is_operator(word)).collect()
}

fn is_operator(word: &str) -> bool {
    ["&&", "||", ";", "&", "|", "\n"].contains(&word)
}

/// The same with the operators between commands as words of their own.
fn split_script(script: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let (mut quote, mut nesting) = (None, 0_usize);
    let mut letters = script.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            // What stands in brackets belongs to its word.
            (None, '(') | (None, ')') => {
                nesting = if letter == '(' { nesting + 1 } else { nesting.saturating_sub(1) };
                word.get_or_insert_default().push(letter);
            }
            (None, _) if nesting > 0 => word.get_or_insert_default().push(letter),
            (None, '&' | '|' | ';' | '\n') => {
                words.extend(word.take());
                let mut operator = letter.to_string();
                operator.extend(letters.next_if_eq(&letter));
                words.push(operator);
            }
            (None, ' ' | '\t' | '\r') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
