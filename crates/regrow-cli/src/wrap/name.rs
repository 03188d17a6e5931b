//! The name of a server that was given none: what its command really runs, behind runners, wrappers and shells.

mod runners;
mod spec;

use std::ffi::OsString;

use runners::{Runs, run_by};
use spec::{package, path, program};

/// Launchers start launchers (`env`, then `timeout`, then `npx`), but not endlessly.
const MAX_DEPTH: usize = 8;

/// The name of what this command runs, or of the program itself.
pub(crate) fn name_of(command: &[OsString]) -> String {
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let named = named(&words, None, MAX_DEPTH).filter(|name| !name.is_empty());
    named.unwrap_or_else(|| words.first().map(|first| program(first)).unwrap_or_default())
}

/// None where the words name nothing better than the program. `folder` is where it is started, if the command says.
fn named(words: &[String], folder: Option<&str>, depth: usize) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let launcher = program(first);
    if depth == 0 {
        return Some(launcher);
    }
    let run = run_by(&launcher, rest);
    let folder = run.folder.as_deref().or(folder);
    let found = match run.what {
        Runs::Itself => Some(path(first, folder)),
        Runs::Nothing => None,
        Runs::Package(spec) => Some(package(&spec)),
        Runs::Path(script) => Some(path(&script, folder)),
        Runs::Name(name) => Some(name),
        Runs::Command(words) => named(&words, folder, depth - 1),
    };
    found.filter(|name| !name.is_empty()).or(Some(launcher))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_after_what_really_runs() {
        let table = [
            // Packages.
            ("npx -y @modelcontextprotocol/server-everything", "server-everything"),
            ("npx -y @scope/thing@1.2.3", "thing"),
            ("npx --yes thing@latest stdio", "thing"),
            ("npx -p pkg cmd", "cmd"),
            ("npx --package=@scope/pkg cmd --flag", "cmd"),
            ("npx -y -p @scope/pkg -c 'cmd --flag'", "cmd"),
            ("npx -y github:owner/repo", "repo"),
            ("npx -y ./packages/thing", "thing"),
            ("npm exec -y -- @scope/thing@1", "thing"),
            ("npm --prefix /srv/weather run start", "weather"),
            ("npm run weather", "weather"),
            ("pnpm dlx thing", "thing"),
            ("yarn dlx @scope/thing", "thing"),
            ("bunx thing@2", "thing"),
            ("bun x thing", "thing"),
            ("bun run src/weather.ts", "weather"),
            ("uvx mcp-server-git", "mcp-server-git"),
            ("uvx mcp-server-git==1.2", "mcp-server-git"),
            ("uvx --python 3.12 mcp-server-git[extra]@1.2 --repository .", "mcp-server-git"),
            ("uvx --from X cmd", "cmd"),
            ("uvx --from git+https://example.com/o/repo cmd", "cmd"),
            ("uvx git+https://example.com/o/repo.git@main", "repo"),
            ("uv tool run --from X cmd", "cmd"),
            ("pipx run thing==1", "thing"),
            // Scripts.
            ("uv run --directory x server.py", "server"),
            ("uv --directory /srv/weather run main.py", "weather"),
            ("uv run --with mcp --with httpx weather.py", "weather"),
            ("uv run --project /srv/x python -m weather.server", "weather"),
            ("uv run weather-server", "weather-server"),
            ("uv run -m weather", "weather"),
            ("poetry run python server.py", "server"),
            ("/usr/bin/python3 -m mcp_server_time", "mcp_server_time"),
            ("python -m pkg.server", "pkg"),
            ("python -m pkg.weather", "weather"),
            ("python3.12 -u /srv/weather/main.py --x", "weather"),
            ("/srv/.venv/bin/python -X dev weather.py", "weather"),
            ("python -c 'import x'", "python"),
            ("python", "python"),
            ("node path/to/index.js", "to"),
            ("node --env-file .env /srv/weather/dist/index.js", "weather"),
            ("node -r dotenv/config /x/node_modules/@scope/thing/build/src/index.js", "thing"),
            ("node index.js", "index"),
            ("node", "node"),
            ("tsx src/weather.ts", "weather"),
            ("deno run -A script.ts", "script"),
            ("deno run --allow-net=example.com jsr:@scope/thing@1", "thing"),
            ("deno run -A npm:@scope/thing", "thing"),
            ("deno run https://example.com/thing/mod.ts", "thing"),
            ("java -Xmx1g -jar /opt/weather.jar", "weather"),
            ("dotnet run --project src/Weather.csproj", "Weather"),
            ("go run github.com/o/thing@latest", "thing"),
            ("go run ./cmd/thing", "thing"),
            ("cargo run --release --bin thing", "thing"),
            ("ruby weather.rb", "weather"),
            ("nix run nixpkgs#thing -- --stdio", "thing"),
            // Containers.
            (
                "docker run -i --rm -e TOKEN -v /a:/b ghcr.io/github/github-mcp-server:latest stdio",
                "github-mcp-server",
            ),
            ("docker run --rm -i --name x --env=A=1 image", "image"),
            ("docker run -i image@sha256:abc", "image"),
            ("docker run -i localhost:5000/team/image:1.2", "image"),
            ("podman container run -it --rm --init mcp/time", "time"),
            ("docker exec -i -u root box server", "box"),
            ("docker compose -f x.yml run --rm weather", "weather"),
            // Before the command.
            ("env A=1 npx -y @scope/foo-mcp@1.2", "foo-mcp"),
            ("env -i -u HOME A=1 /opt/bin/server", "server"),
            ("/usr/bin/env -S node --no-warnings weather.mjs", "weather"),
            ("A=1 server", "server"),
            ("timeout -s KILL 10 uvx thing", "thing"),
            ("nice -n 5 nohup python -m thing", "thing"),
            ("sudo -u mcp -- server", "server"),
            ("op run --env-file x -- npx -y thing", "thing"),
            ("cmd /c npx -y thing", "thing"),
            ("conda run -n tools python weather.py", "weather"),
            ("regrow wrap --name x -- uvx thing", "thing"),
            // Shells.
            ("bash -c 'cd /srv && exec npx -y @scope/thing@1 2>/dev/null'", "thing"),
            ("bash -lc 'source ~/.profile; TOKEN=$(cat x) uvx thing'", "thing"),
            ("sh -c \"python 'my server.py'\"", "my server"),
            ("sh /opt/weather.sh --x", "weather"),
            ("bash -c ''", "bash"),
            ("bash", "bash"),
            // Programs.
            ("/opt/bin/my-server.sh --port 3", "my-server"),
            ("/opt/weather/server", "server"),
            ("./target/debug/thing-1.2", "thing-1.2"),
            ("C:\\tools\\weather.exe", "weather"),
            ("npx", "npx"),
            ("docker", "docker"),
        ];
        let wrong: Vec<String> = table
            .iter()
            .filter_map(|(command, expected)| {
                let words: Vec<OsString> = runners::split(command).into_iter().map(OsString::from).collect();
                let name = name_of(&words);
                (name != *expected).then(|| format!("{command}: {name}, not {expected}"))
            })
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(name_of(&[]), "");
        assert_eq!(name_of(&["".into()]), "");
        let endless: Vec<OsString> = std::iter::repeat_n("env".into(), 100).collect();
        assert_eq!(name_of(&endless), "env");
    }
}
