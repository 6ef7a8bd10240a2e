//! The command line.
#![forbid(unsafe_code)]

mod args;
mod demo;
mod load;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;

use args::Command;
use ixion_broker::{Broker, Config};
use tokio::signal::unix::{Signal, SignalKind, signal};

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            complain(&format!("{error}\nixion-broker --help lists the options"));
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Help => say(args::HELP.trim_end()),
        Command::Version => say(&format!("ixion-broker {}", env!("CARGO_PKG_VERSION"))),
        Command::Serve(config) => run(serve(*config)),
        Command::Follow { leader, node, config } => run(follow(leader, node, *config)),
        Command::Demo(length) => run(async move { demo::run(length).await.map_err(io::Error::other) }),
        Command::Load(load) => run(async move { load::run(*load).await.map_err(io::Error::other) }),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(task: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(task)
}

async fn serve(config: Config) -> io::Result<()> {
    say(args::WARNING)?;
    let end = Ends::listen()?;
    let nodes =
        if config.followers.is_empty() { usize::from(config.replicas) } else { 1 + config.followers.len() };
    let broker = Broker::start(config).await?;
    let plural = if nodes == 1 { "" } else { "s" };
    say(&format!("serving on {} with {nodes} node{plural}", broker.addr()))?;
    if let Some(control) = broker.control_addr() {
        say(&format!("control port on {control}"))?;
    }
    if let Some(http) = broker.http_addr() {
        say(&format!("live page on http://{http}/"))?;
    }
    end.come().await;
    let said = say("shutting down");
    broker.shutdown().await;
    said
}

async fn follow(leader: SocketAddr, node: u16, config: Config) -> io::Result<()> {
    say(args::WARNING)?;
    let end = Ends::listen()?;
    let follower = Broker::follow(leader, node, config).await?;
    say(&format!("following {leader} as node {node} on {}", follower.addr()))?;
    let mut trouble = follower.trouble();
    let mut ended = pin!(end.come());
    let said = loop {
        let said = tokio::select! {
            () = &mut ended => break say("shutting down"),
            _ = trouble.changed() => match &*trouble.borrow_and_update() {
                Some(wrong) => {
                    complain(&format!("{wrong}; node {node} tries again"));
                    Ok(())
                }
                None => say(&format!("node {node} copies what the leader has")),
            },
        };
        if said.is_err() {
            break said;
        }
    };
    follower.shutdown().await;
    said
}

/// Prints a line.
fn say(line: &str) -> io::Result<()> {
    written(writeln!(io::stdout(), "{line}"))
}

/// Whoever reads what is written may stop; but what cannot be written for another reason is an error.
fn written(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io::Error::new(error.kind(), format!("cannot write to the standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints what is wrong. Where that cannot be written nothing can.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "ixion-broker: {what}");
}

/// The signals that end it.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
}

impl Ends {
    /// From here on they do not end the process at once.
    fn listen() -> io::Result<Ends> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Ends { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn come(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
