//! Where the program is.

use crate::Failure;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of `redis-server`: the one that the variable `REDIS_SERVER` names, or that is installed, or that
/// `ci/redis.sh` installs.
pub(crate) fn server() -> Result<&'static Path, Failure> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(|| find().map_err(|error| error.to_string())) {
        Ok(path) => Ok(path),
        Err(error) => Err(error.clone().into()),
    }
}

fn find() -> Result<PathBuf, Failure> {
    if let Some(path) = env::var_os("REDIS_SERVER") {
        return Ok(path.into());
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/redis.sh");
    let output = Command::new("bash").arg(script).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("there is no redis-server; REDIS_SERVER may name one: {said}").into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().into())
}
