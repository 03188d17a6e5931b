//! The tools: each does one thing wrong, and says in the journal that it ran before it has its effect.

use std::env;
use std::fs;
use std::os::fd::AsRawFd;
use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use regrow_protocol::meta;
use serde_json::json;

use super::life::{self, Death};
use super::peer::{Call, News};
use super::wire::{Reply, RpcRequest};
use super::{Server, catalog};
use crate::plan::{Orders, parse_bytes};
use crate::sync::lock;

impl Server {
    /// Runs a tool: at once where that is quick or where it concerns the reading of stdin, else beside us.
    pub(super) fn call(self: &Arc<Self>, request: RpcRequest, orders: &Orders) {
        let name = request.params["name"].as_str().unwrap_or_default().to_owned();
        if let Some(refusal) = self.refusal(&request, orders) {
            return self.answer(&request, refusal);
        }
        if !self.offers(orders, &name) {
            return self.answer(&request, Reply::error(-32602, format!("Unknown tool: {name}")));
        }
        let call = Arc::new(Call::default());
        let beside = match name.as_str() {
            "slow" | "ask" | "huge" | "stderr" | "notify" | "burst" => true,
            "count" => number(&request, "delay_ms", 0) > 0,
            "hang" => request.argument("whole") != true,
            _ => false,
        };
        if !beside {
            let reply = self.tool(&name, &request, &call);
            return self.answer(&request, reply);
        }
        lock(&self.running).insert(request.id.clone(), Arc::clone(&call));
        let server = Arc::clone(self);
        self.spawn(move || {
            let reply = server.tool(&name, &request, &call);
            if matches!(reply, Reply::Silence) {
                request.output.give_up();
            }
            server.answer(&request, reply);
            let mut running = lock(&server.running);
            // A client may have used the id again meanwhile.
            if running.get(&request.id).is_some_and(|known| Arc::ptr_eq(known, &call)) {
                running.remove(&request.id);
            }
        });
    }

    fn tool(self: &Arc<Self>, name: &str, request: &RpcRequest, call: &Arc<Call>) -> Reply {
        let key = request.argument("key").as_str().unwrap_or("-");
        if name == "die" && request.argument("when") == "before" {
            self.end("die", death(request));
        }
        let total = self.evidence.run(name, key);
        let done = || Reply::text(name);
        match name {
            "count" => match call.wait(Duration::from_millis(number(request, "delay_ms", 0))) {
                Some(_) => Reply::Silence,
                None => Reply::text(total.to_string()),
            },
            "slow" => self.slow(request, call),
            "die" => self.die(request, total),
            "lookup" | "set" => {
                if total <= number(request, "die_times", 0) {
                    self.end(name, Death::Kill);
                }
                Reply::text(total.to_string())
            }
            "hang" if request.argument("whole") == true => self.hang(),
            "hang" => {
                call.wait(self.time_left());
                Reply::Silence
            }
            "stop" => self.stop(request),
            "ask" => self.ask(request, call),
            "notify" => self.notify(request),
            "burst" => {
                (0..number(request, "n", 100)).for_each(|_| self.say_tools_changed(request.modern));
                done()
            }
            "change" => {
                self.tools_added.fetch_add(1, Ordering::SeqCst);
                self.say_tools_changed(request.modern);
                done()
            }
            "touch" => {
                let uri = request.argument("uri").as_str().unwrap_or("chaos://life");
                Reply::text(self.say_resource_changed(request.modern, uri).to_string())
            }
            "unlisten" => Reply::text(self.end_streams().to_string()),
            "pid" => Reply::text(process::id().to_string()),
            "env" => match env::var(text(request, "name", "")) {
                Ok(value) => Reply::text(value),
                Err(_) => failure("not set"),
            },
            "secret" => {
                let value = env::var(text(request, "name", "CHAOS_SECRET")).unwrap_or_default();
                Reply::error(-32000, format!("login refused for token {value}"))
            }
            "region" => Reply::text(text(request, "region", "")),
            "fds" => self.open_files(),
            "fail" => failure("this tool fails, as planned"),
            "error" => Reply::error(-32000, "this call is answered with an error, as planned"),
            "stderr" => {
                life::flood_stderr(bytes(request, 1000));
                done()
            }
            "closein" => {
                self.close_stdin();
                done()
            }
            "closeout" => {
                if request.argument("answer") == true {
                    self.answer(request, done());
                }
                request.output.close();
                Reply::Silence
            }
            "odd" => {
                let line = odd(&request.id, request.modern, text(request, "kind", "lines"));
                request.output.answer(&line, 200);
                Reply::Silence
            }
            "huge" | "half" | "garbage" | "malformed" | "dup" | "stray" | "batch" => {
                self.ill_formed(name, request)
            }
            name if catalog::is_built_in(name) && name != "echo" => failure("a tool without a body"),
            _ => Reply::text(text(request, "text", "")),
        }
    }

    /// Answers that are not as answers should be.
    fn ill_formed(self: &Arc<Self>, name: &str, request: &RpcRequest) -> Reply {
        let (id, reply) = (&request.id, Reply::text(name));
        match name {
            "huge" => {
                let kind = if request.modern { r#""resultType":"complete","# } else { "" };
                let result = format!(r#""result":{{{kind}"content":[{{"type":"text","text":""#);
                let (head, tail) = match text(request, "id", "first") {
                    "last" => (format!(r#"{{"jsonrpc":"2.0",{result}"#), format!("\"}}]}},\"id\":{id}}}\n")),
                    _ => (format!(r#"{{"jsonrpc":"2.0","id":{id},{result}"#), "\"}]}}\n".to_owned()),
                };
                request.output.stream(&head, bytes(request, 1_000_000), &tail);
                return Reply::Silence;
            }
            "half" => self.half_a_line(request),
            "garbage" => {
                request.output.expect_more();
                request.output.raw(b"this is not JSON\n\xff\xfe\xc3\x28\n{\"jsonrpc\":\n\0\n");
            }
            "malformed" => {
                let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"text":""#);
                request.output.raw(&[head.as_bytes(), b"\xff\xfe\" oops ]}\n"].concat());
                return Reply::Silence;
            }
            "dup" => {
                let twin = self.in_form(request, Reply::text(name));
                request.output.expect_more();
                request.output.line(&twin.line(id).unwrap_or_default());
            }
            "stray" => {
                request.output.expect_more();
                let stray = Reply::text("nobody asked");
                request.output.line(&stray.line("987654321").unwrap_or_default());
                request.output.line(&stray.line("\"nobody\"").unwrap_or_default());
            }
            _ => {
                let answer = self.in_form(request, reply).line(id).unwrap_or_default();
                let note = json!({"jsonrpc": "2.0", "method": "notifications/message",
                    "params": {"level": "info", "data": "in a batch"}});
                request.output.answer(&format!("[{note},{answer}]"), 200);
                return Reply::Silence;
            }
        }
        reply
    }

    fn slow(&self, request: &RpcRequest, call: &Call) -> Reply {
        let length = Duration::from_millis(number(request, "ms", 1000));
        let step = match number(request, "progress_ms", 0) {
            0 => length,
            step => Duration::from_millis(step),
        };
        let begin = Instant::now();
        for tick in 1_u32.. {
            let left = length.saturating_sub(begin.elapsed());
            if let Some(News::Cancelled) = call.wait(step.min(left)) {
                return Reply::Silence;
            }
            if begin.elapsed() >= length {
                break;
            }
            self.progress(request, tick.into());
        }
        Reply::text("slow")
    }

    fn die(self: &Arc<Self>, request: &RpcRequest, total: u64) -> Reply {
        if total > number(request, "times", u64::MAX) {
            return Reply::text(total.to_string());
        }
        if request.argument("when") == "after" {
            self.answer(request, Reply::text(total.to_string()));
        }
        self.end("die", death(request))
    }

    fn stop(self: &Arc<Self>, request: &RpcRequest) -> Reply {
        let early = request.argument("answer") == true;
        if early {
            self.answer(request, Reply::text("stop"));
        }
        life::stop(self.time_left());
        if early { Reply::Silence } else { Reply::text("stop") }
    }

    fn notify(&self, request: &RpcRequest) -> Reply {
        let count = number(request, "n", 10);
        let logs = !request.modern || request.meta(meta::LOG_LEVEL).is_some();
        let logger = format!("chaos{}", "-".repeat(number(request, "bytes", 0) as usize));
        for number in 1..=count {
            if logs {
                let params = json!({"level": "info", "logger": logger, "data": number});
                request.output.notify("notifications/message", &params);
            }
            self.progress(request, number);
        }
        Reply::text(count.to_string())
    }

    fn progress(&self, request: &RpcRequest, progress: u64) {
        if let Some(token) = request.meta(meta::PROGRESS_TOKEN) {
            let params = json!({"progressToken": token, "progress": progress});
            request.output.notify("notifications/progress", &params);
        }
    }

    /// The descriptors above 2, apart from the journal and the one that lists them.
    fn open_files(&self) -> Reply {
        let own = self.evidence.file().map(AsRawFd::as_raw_fd);
        let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let open: Vec<String> = entries
            .filter_map(|entry| {
                let number: i32 = entry.file_name().to_str()?.parse().ok()?;
                let target = fs::read_link(entry.path()).unwrap_or_default().display().to_string();
                let ours = Some(number) == own || target.ends_with(&format!("/{}/fd", process::id()));
                (number > 2 && !ours).then(|| format!("{number} {target}"))
            })
            .collect();
        Reply::text(open.join("\n"))
    }
}

/// An answer that few would write so.
fn odd(id: &str, modern: bool, kind: &str) -> String {
    let mark = if modern { r#""resultType":"complete","# } else { "" };
    let answer = |head: &str, rest: &str| {
        format!(
            r#"{{{head}"id":{id},"jsonrpc":"2.0","result":{{{mark}"content":[{{"type":"text","text":"odd"}}]{rest}}}}}"#
        )
    };
    match kind {
        "deep" => answer("", &format!(r#","deep":{}{}"#, "[".repeat(1_000_000), "]".repeat(1_000_000))),
        "nan" => answer("", r#","not":NaN"#),
        "surrogate" => answer("", r#","half":"\ud800""#),
        "mark" => format!("\u{feff}{}", answer("", "")),
        "nul" => answer("", ",\"nul\":\"\0\""),
        "duplicate" => answer(r#""id":987654321,"#, ""),
        _ => answer("", "").replace(',', ",\r\n  "),
    }
}

fn failure(text: &str) -> Reply {
    Reply::Result(json!({"isError": true, "content": [{"type": "text", "text": text}]}))
}

fn death(request: &RpcRequest) -> Death {
    Death::parse(text(request, "how", "exit1")).unwrap_or(Death::Exit(1))
}

fn text<'a>(request: &'a RpcRequest, name: &str, default: &'a str) -> &'a str {
    request.argument(name).as_str().unwrap_or(default)
}

fn number(request: &RpcRequest, name: &str, default: u64) -> u64 {
    request.argument(name).as_u64().unwrap_or(default)
}

/// A size: a number, or a text such as `1GB`.
fn bytes(request: &RpcRequest, default: u64) -> u64 {
    let size = request.argument("bytes");
    size.as_u64().or_else(|| size.as_str().and_then(parse_bytes)).unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn sizes_may_be_numbers_or_texts() {
        let request = |bytes: Value| RpcRequest {
            id: "1".into(),
            method: "tools/call".into(),
            params: json!({"arguments": {"bytes": bytes}}),
            modern: false,
            output: Default::default(),
        };
        assert_eq!(bytes(&request(json!(7)), 1), 7);
        assert_eq!(bytes(&request(json!("1KB")), 1), 1000);
        assert_eq!(bytes(&request(json!(null)), 1), 1);
    }
}
