//! The command line.
#![forbid(unsafe_code)]

mod args;
mod demo;

use std::process::ExitCode;

use args::Command;
use ixion_broker::{Broker, Config};
use tokio::signal::unix::{SignalKind, signal};

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
            print!("{}", args::HELP);
            Ok(())
        }
        Command::Version => {
            println!("ixion-broker {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        Command::Serve(config) => run(serve(*config)),
        Command::Demo(length) => run(async move {
            println!("{}", args::WARNING);
            demo::run(length).await.map_err(std::io::Error::other)
        }),
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
    println!("{}", args::WARNING);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (listen, nodes) = (config.listen, config.replicas);
    let broker = Broker::start(config)
        .await
        .map_err(|error| std::io::Error::new(error.kind(), format!("cannot serve on {listen}: {error}")))?;
    println!("serving on {} with {nodes} nodes", broker.addr());
    if let Some(control) = broker.control_addr() {
        println!("control port on {control}");
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    println!("shutting down");
    broker.shutdown().await;
    Ok(())
}
