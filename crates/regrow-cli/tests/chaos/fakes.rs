//! Clients that are bad in one known way. They are this test program again, told by a variable what to be.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

const VARIABLE: &str = "REGROW_FAKE_CLIENT";

/// The command of a fake of this kind.
pub(crate) fn command(kind: &str) -> Vec<String> {
    let program =
        std::env::current_exe().expect("a test knows its own program").to_string_lossy().into_owned();
    let role = ["--exact", "fakes::plays_its_part", "--ignored", "--nocapture"].map(str::to_owned);
    [vec!["env".to_owned(), format!("{VARIABLE}={kind}"), program], role.to_vec()].concat()
}

#[test]
#[ignore = "a part of other tests: it is the client under test"]
fn plays_its_part() {
    match std::env::var(VARIABLE).as_deref() {
        Ok("regrow") => crate::regrow_itself::play(),
        Ok(kind) => Fake::new(kind).play(),
        Err(_) => {}
    }
}

/// A simple client, one task at a time.
struct Fake {
    kind: String,
    server: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
    last: u64,
}

impl Fake {
    fn new(kind: &str) -> Fake {
        Fake { kind: kind.into(), server: None, last: 0 }
    }

    fn play(mut self) {
        println!("{}", json!({ "hello": "fake 1" }));
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let task: Value = serde_json::from_str(&line).expect("the suite writes JSON");
            let Some(name) = task["do"].as_str() else { continue };
            let outcome = match name {
                "connect" => self.connect(),
                "list" => self.ask("tools/list", json!({})).map(|result| result.to_string()),
                "call" => self.call(&task),
                "status" => Ok(self.status()),
                _ => {
                    self.close();
                    Ok("closed".into())
                }
            };
            match outcome {
                Ok(text) => println!("{}", json!({ "id": task["id"], "ok": true, "text": text })),
                Err(error) => println!("{}", json!({ "id": task["id"], "ok": false, "error": error })),
            }
        }
        self.close();
        if self.kind == "never-ends" {
            thread::sleep(Duration::from_secs(600));
        }
        // The harness must not say more on our output.
        std::process::exit(0);
    }

    fn connect(&mut self) -> Result<String, String> {
        let command = std::env::var("REGROW_CHAOS_COMMAND").expect("the suite names a server");
        let words: Vec<String> = serde_json::from_str(&command).expect("an array of words");
        let mut starting = Command::new(&words[0]);
        starting.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = starting.spawn().map_err(|error| format!("{}: {error}", words[0]))?;
        let input = child.stdin.take().expect("it is a pipe");
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        self.server = Some((child, input, output));
        let info = json!({ "name": "fake", "version": "1" });
        self.ask(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info }),
        )?;
        self.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        Ok("connected".into())
    }

    fn call(&mut self, task: &Value) -> Result<String, String> {
        let params = json!({ "name": task["tool"], "arguments": task["arguments"] });
        let mut answer = self.ask("tools/call", params.clone());
        if answer.is_err() && self.kind == "runs-twice" {
            self.connect()?;
            answer = self.ask("tools/call", params);
        }
        Ok(answer?["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    }

    fn tell(&mut self, message: &Value) {
        if let Some((_, input, _)) = &mut self.server {
            let _ = writeln!(input, "{message}"); // A dead server gives no answer.
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last += 1;
        self.tell(&json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params }));
        let Some((_, _, output)) = &mut self.server else { return Err("there is no connection".into()) };
        let mut line = String::new();
        let read = output.read_line(&mut line).unwrap_or(0);
        match serde_json::from_str::<Value>(&line) {
            Ok(answer) if read > 0 => Ok(answer["result"].clone()),
            _ if self.kind == "says-nothing" => Err(String::new()),
            _ => Err("the connection was closed; the call may have run".into()),
        }
    }

    fn status(&mut self) -> String {
        let Some((child, _, _)) = &mut self.server else { return "down".into() };
        let has_ended = child.try_wait().expect("it is our child").is_some();
        if has_ended && self.kind != "never-notices" { "down".into() } else { "ready".into() }
    }

    fn close(&mut self) {
        let Some((mut child, input, output)) = self.server.take() else { return };
        drop((input, output));
        if self.kind != "leaves-orphans" {
            child.kill().and_then(|()| child.wait()).expect("it is our child");
        }
    }
}
