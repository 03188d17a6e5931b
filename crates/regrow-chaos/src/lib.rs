//! MCP servers that misbehave on command.
//!
//! `regrow-chaos server` (or [`server::run`]) is an MCP server that speaks both eras and does wrong what it is
//! told to do wrong. It is told by a plan, by its tools, and by a control file; what it did is in the [`Journal`].
//! It serves stdio, or with `--http 127.0.0.1:PORT` HTTP (see below). [`proxy::Proxy`] is a network that fails on command, and
//! [`issuer::Issuer`] an authorization server that is hostile on command.
//!
//! | environment | meaning |
//! |---|---|
//! | `CHAOS` | the plan: items separated by commas or white space |
//! | `CHAOS_DIR` | the folder of `journal` (evidence) and `control` (a later plan, read again at the start and for each request) |
//! | `CHAOS_LIFE` | the longest life of a process, default `300s`; nothing lives forever |
//!
//! # Plan items
//!
//! `name`, `name=value`; `@2`, `@2-4`, `@2-`, `@-4` limit an item to lives, `:3` to the first three; `!name` cancels earlier items
//! of that name. The last one wins. Durations are `250ms`, `15s`, `2m`; sizes `100MB`, `64MiB`. An unknown item is refused with exit 64.
//!
//! | item (default value) | what happens |
//! |---|---|
//! | `exit-at-start` (`=1`) | exits with that code before it reads anything |
//! | `slow-start` (`=15s`) | reads nothing for so long |
//! | `garbage-on-start` | lines on stdout that are not JSON-RPC, some not UTF-8 |
//! | `flood-stderr` (`=100MB`) | so much on stderr before the first read: 1 MB without a newline, invalid UTF-8, NUL, lines, `flood: last line` |
//! | `log-secret` (`=CHAOS_SECRET`) | the value of that variable on stderr |
//! | `helper`, `helper=free` | a helper process in the same group that holds stdin, stdout and stderr, or holds nothing; up to 120 s |
//! | `helper-setsid`, `helper-setsid=free` | the same in a session of its own |
//! | `never-answer` | no answer to `initialize` and `server/discover` |
//! | `die-on-discover` | exits 1 at `server/discover` |
//! | `refuse-discover` | a legacy server: `server/discover` gets -32601, the modern era is not spoken |
//! | `silent-discover` | no answer to `server/discover` |
//! | `modern-only` | `initialize` gets -32022 |
//! | `lock-era` | `initialize` gets -32022 once `server/discover` was answered |
//! | `strict` | refuses every legacy request but `initialize` and `ping` before `notifications/initialized` |
//! | `ignore-case` | takes members for the ones that it knows if they differ only by case, as some JSON readers do; one in capitals counts |
//! | `odd-tools` | lists tools that strict JSON readers refuse: `deep`, `surrogate`, `infinite`, and one with a name of 300 bytes |
//! | `catch-all` | lists no resource but the template `{+any}`, and answers every `resources/read` |
//! | `version` (`=2025-06-18`) | `initialize` negotiates this version, whatever was asked |
//! | `lose-capability=AREA` | `tools`, `resources`, `prompts`, `logging` or `completions` is gone: not announced, -32601 |
//! | `crash-after-handshake` | exits 1 at `notifications/initialized`, or after the first modern answer |
//! | `drop-after` (`=1s`) | exits 1 so long after that moment |
//! | `hang-after` (`=1`) | after so many requests reads and writes nothing any more |
//! | `close-stdout-after`, `close-stdin-after` (`=1`) | after so many requests closes it and lives on |
//! | `half-line-and-die` (`=1`) | after so many requests answers the next with half a line and exits 1 |
//! | `exit-after-calls` (`=1`) | exits 0 when so many tool calls are answered |
//! | `no-ping`, `invalid-ping`, `silent-ping` | `ping` gets -32601, -32600, or no answer |
//! | `tools=a\|b`, `drop-tool=a`, `extra-tool` (`=extra`) | offers only these tools, not that one, one more (repeatable) |
//! | `change-tool=a` | describes that tool differently |
//! | `announce` (`=0s`) | says `tools/list_changed` on its own so long after `notifications/initialized`, though nothing changed |
//! | `page` (`=10`) | `tools/list` in pages of so many |
//! | `ignore-eof`, `ignore-term` | lives on after the end of stdin, after SIGTERM (its helpers too) |
//! | `finish-on-eof` | answers the calls in flight before it exits; without it, exits 0 at once |
//! | `slow-exit` (`=1s`) | waits so long between the end of stdin and its exit |
//! | `noisy-teardown` | at the end of stdin trash on stdout and stderr, then exit 1 in odd lives, SIGABRT in even ones |
//!
//! "After so many requests" counts every request of a life, the handshake too, and means: received, and answered unless its tool runs
//! beside. 0 means before the first. A request of the legacy era before `initialize` gets -32600;
//! `ping` and what else the modern era dropped gets -32601 there.
//!
//! # Over HTTP
//!
//! Streamable HTTP is at `/mcp` (and at `/moved`), HTTP+SSE at `/sse` with `/messages`. Port 0 means any; the one that it
//! got is in the journal. Both eras are served on one endpoint: `refuse-discover` leaves the legacy one, `modern-only` the
//! modern one. An answer is a JSON body unless something belongs before it. In the modern era headers that are missing or differ
//! from the body get 400 with -32020, and a client that closes the connection cancels its request.
//!
//! | item (default value) | what happens |
//! |---|---|
//! | `stateless` | the legacy era without sessions: no id is given, none is needed, GET gets 405 |
//! | `no-get`, `no-delete` | GET or DELETE gets 405 |
//! | `forget-after` (`=1`) | a session is forgotten after so many tool calls |
//! | `forget` (`=1`) | by control: every change of this number forgets all sessions |
//! | `expiry` (`=404`) | how a session that is not known is refused: `404`, `404-text`, `404-empty`, `400` (JSON-RPC error with id null), `400-bare` (without an id), `400-text`, `200` (-32603 in a good response) |
//! | `need-token=TOKEN` | 401 without `Authorization: Bearer TOKEN` |
//! | `also-token=TOKEN` | this one is as good |
//! | `call-token=TOKEN` | a tool call with another token gets 403 `insufficient_scope`, which asks for the scope `write` |
//! | `issuer=PORT` | protected-resource metadata that names the authorization server at this port |
//! | `answer=sse` | every answer is a stream of events, which begins before the tool runs |
//! | `event-ids` | events have ids, and a stream can be resumed by `Last-Event-ID` (the last 256 events of the last 64 streams) |
//! | `prime` | a stream begins with an empty event that has an id |
//! | `retry` (`=50`) | a stream begins with this `retry:` |
//! | `close-idle` (`=0s`) | a connection is closed when no request came for so long; with 0 after each response |
//! | `ask-on-get` | questions to the client go where it listens, not on the response |
//! | `foreign-endpoint=PORT` | the `endpoint` event of HTTP+SSE names this port |
//!
//! The following strike requests; on their own all but notifications, GET, DELETE and OPTIONS. `on=tools/call|GET` names those that
//! they strike (`on=tools/call#pay`: calls of one tool), `skip=2` lets the first two of these pass, `times=3` strikes three; counting restarts with each change of the plan.
//!
//! | item (default value) | what happens |
//! |---|---|
//! | `status` (`=503`) | this status, and the request is not looked at; `body=` `text`, `rpc` (a JSON-RPC error with its id), `rpc-null`, `json`, `html`, `empty` |
//! | `retry-after`, `retry-after-date` (`=1`) | with that status: retry after this many seconds, as a number or as a date |
//! | `redirect` (`=same`) | 307 to `/moved`, or to the port that is named; what comes to `/moved` is served |
//! | `swallow` | is read and never answered |
//! | `drop-request`, `drop-answer` | the connection is closed before it runs, or after it without a byte |
//! | `cut`, `finish` (`=0`) | a stream is cut, or ended cleanly, after so many events; it goes on where it is resumed |
//! | `cut-body` (`=10`) | the connection is closed after so many bytes of the body |
//! | `drip-head`, `drip-body` (`=100ms`) | head or body byte by byte, with this pause after each |
//! | `bomb` (`=1GB`) | a gzip body that unpacks to so much, 159 times its size |
//! | `endless` (`=1GB`) | one event so large in place of the answer |
//! | `answer-id` (`=987654321`) | the answer has this id |
//!
//! # Tools
//!
//! R marks tools with `readOnlyHint`, I those with only `idempotentHint`. Each run is in the journal before its effect.
//!
//! | tool | arguments (default) | what it does |
//! |---|---|---|
//! | `echo` R | `text` | returns it |
//! | `count` | `key`, `delay_ms` (0) | one durable effect, then the delay; returns the total for the key over all lives |
//! | `slow` | `ms` (1000), `key`, `progress_ms` (none) | its effect, then waits; progress if there is a token; a cancellation ends it without an answer |
//! | `die` | `key`, `when` (`during`, `before`, `after`), `how` (`exit1`, `exit0`, `kill`, `segv`, `abort`), `times` (always) | dies before its effect, after it without an answer, or after the answer; answers once it ran more than `times` for the key |
//! | `lookup` R, `set` I | `key`, `die_times` (0) | dies by SIGKILL in its first so many runs for the key, then returns the total |
//! | `hang` | `key`, `whole` (false) | never answers; `whole`: reads and writes nothing any more |
//! | `stop` | `answer` (false) | SIGSTOP to itself, after answering or before |
//! | `huge` R | `bytes` (1000000), `id` (`first`, `last`) | one line with a text so long, streamed |
//! | `half` | | half a line, then exit 1 |
//! | `garbage` R | | bytes that are not JSON, then the answer |
//! | `malformed` R | | a line with its id, then broken JSON that is not UTF-8 |
//! | `odd` R | `kind` (`lines`, `deep`, `nan`, `surrogate`, `mark`, `nul`, `duplicate`) | an answer over several lines (over HTTP), a million deep, with NaN, half a surrogate pair, a byte order mark, a NUL, two ids |
//! | `dup` R | | the answer, twice |
//! | `stray` R | | answers to ids 987654321 and "nobody", then its own |
//! | `batch` R | | a log notification and the answer in one array |
//! | `stderr` R | `bytes` (1000) | so much on stderr as `flood-stderr` does, then the answer |
//! | `fail` R, `error` R | | an `isError` result; a JSON-RPC error (-32000) |
//! | `secret` R | `name` (`CHAOS_SECRET`) | a JSON-RPC error that quotes the variable |
//! | `ask` | `kind` (`elicitation`, `sampling`, `roots`) | asks the client (ids from 0 in every life), returns the whole answer line; modern: `input_required`, then the `inputResponses` |
//! | `notify` R | `n` (10) | n log messages with `data` 1..n, and progress if there is a token, then the answer (modern: log only if `_meta` has a log level) |
//! | `burst` R | `n` (100) | n times `tools/list_changed`, then the answer |
//! | `change` | | adds `added-1`, `added-2`, ... and sends `tools/list_changed`, then the answer |
//! | `touch` | `uri` (`chaos://life`) | `resources/updated` if subscribed; returns how often it was sent |
//! | `unlisten` | | ends all `subscriptions/listen` streams with their results; returns how many |
//! | `closeout` | `answer` (false) | closes stdout, after answering or without an answer |
//! | `closein` | | closes stdin, then answers |
//! | `region` | `region` | returns it; modern over HTTP it must also stand in `Mcp-Param-Region` |
//! | `pid` R, `env` R, `fds` R | `name` for `env` | the process id; a variable; open descriptors above 2, one `FD TARGET` per line |
//!
//! There is one resource, `chaos://life` (the number of the life), and one prompt, `greet`.

pub mod fetch;
mod gzip;
mod http1;
mod incoming;
pub mod issuer;
pub mod journal;
pub mod plan;
mod port;
pub mod processes;
pub mod program;
pub mod proxy;
pub mod server;
pub mod suite;
pub mod sync;

pub use journal::Journal;
