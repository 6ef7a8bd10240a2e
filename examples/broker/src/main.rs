//! The command line.
#![forbid(unsafe_code)]

mod args;
mod demo;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use args::Command;
use ixion_broker::{Broker, Config};
use tokio::signal::unix::{Signal, SignalKind, signal};

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("ixion-broker: {error}");
            eprintln!("ixion-broker --help lists the options");
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Help => {
            say(args::HELP.trim_end());
            Ok(())
        }
        Command::Version => {
            say(&format!("ixion-broker {}", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
        Command::Serve(config) => run(serve(*config)),
        Command::Follow { leader, node, config } => run(follow(leader, node, *config)),
        Command::Demo(length) => run(async move {
            say(args::WARNING);
            demo::run(length).await.map_err(std::io::Error::other)
        }),
        Command::Polls(shape) => {
            run(async move { demo::polls::run(shape).await.map_err(std::io::Error::other) })
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ixion-broker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: impl Future<Output = std::io::Result<()>>) -> std::io::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(task)
}

async fn serve(config: Config) -> std::io::Result<()> {
    say(args::WARNING);
    let end = Ends::listen()?;
    let nodes =
        if config.followers.is_empty() { usize::from(config.replicas) } else { 1 + config.followers.len() };
    let broker = Broker::start(config).await?;
    say(&format!("serving on {} with {nodes} nodes", broker.addr()));
    if let Some(control) = broker.control_addr() {
        say(&format!("control port on {control}"));
    }
    end.come().await;
    say("shutting down");
    broker.shutdown().await;
    Ok(())
}

async fn follow(leader: SocketAddr, node: u16, config: Config) -> std::io::Result<()> {
    say(args::WARNING);
    let end = Ends::listen()?;
    let follower = Broker::follow(leader, node, config).await?;
    say(&format!("following {leader} as node {node} on {}", follower.addr()));
    end.come().await;
    say("shutting down");
    follower.shutdown().await;
    Ok(())
}

/// Prints a line. Whether anybody reads it is no matter.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The signals that end it.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
}

impl Ends {
    /// From here on they do not end the process at once.
    fn listen() -> std::io::Result<Ends> {
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
