//! The figures that we promise, measured side by side in one run: `cargo bench -p regrow-cli`.
//!
//! Every figure through `regrow wrap` stands beside the same thing done with the server alone. Machines are noisy:
//! compare the columns of one run, not the runs. `KILLS=20` makes it short.

mod gateway;
mod peer;
mod process;
mod remote;
mod system;
mod table;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, url, era] = &arguments[..]
        && first == remote::IDLE_ARGUMENT
    {
        return remote::idle(url, era);
    }
    let kills = std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    process::figures(5_000, kills);
    remote::figures(2_000, kills);
    gateway::figures(kills.min(24), kills.min(20));
}
