//! HTTP on loopback: a page that shows the broker at work, the figures that it is drawn from, and Prometheus's.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page; what it loads is here, too |
//! | `GET /stats.json` | what the page shows: [`Picture`] |
//! | `GET /metrics` | everything that is counted, in the text format of OpenMetrics |
//! | `POST /control` | the body is a command of the control port, and so is the answer |
//!
//! A page of another site that a browser on this machine has open can send requests here as well. It gets nothing: its own
//! name in `Host` is refused, and so is a command whose `Origin` is elsewhere.

mod metrics;
mod picture;
mod times;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::control::obey;
use crate::net::becomes;
use picture::Picture;

/// The longest head of a request that is read.
const MAX_HEAD: usize = 16 << 10;
/// The longest command that is read.
const MAX_COMMAND: usize = 1024;

/// The page, in parts: the path, what it is, the text.
const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/wheel.js", "text/javascript; charset=utf-8", include_str!("page/wheel.js")),
    ("/tables.js", "text/javascript; charset=utf-8", include_str!("page/tables.js")),
    ("/times.js", "text/javascript; charset=utf-8", include_str!("page/times.js")),
];

/// Sent with every answer: nothing is kept, nothing is loaded from elsewhere, no other page may show this one in a frame,
/// where a click could be caught for its buttons.
const PRECAUTIONS: [(header::HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];

/// Serves one client. Whoever is slow is cut off, as clients of Kafka's protocol are.
pub(crate) async fn serve(stream: TcpStream, cluster: Arc<Cluster>, mut closing: watch::Receiver<bool>) {
    let patience = cluster.config.transfer_timeout;
    let (begin, mut begun) = watch::channel(());
    let service = service_fn(|request| {
        begin.send_replace(());
        async { Ok::<_, Infallible>(answer(&cluster, request).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service)
    );
    // A client that breaks off, or sends what is no request, is no concern of anybody's.
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            // For a command, for the answer to be taken, which hyper waits for as long as it takes, and for the next head.
            begun = tokio::time::timeout(patience.saturating_mul(3), begun.changed()) => {
                if begun.is_err() {
                    return;
                }
            }
            _ = becomes(&mut closing, true) => break,
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

async fn answer(cluster: &Cluster, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if !is_from_here(request.headers()) {
        return plain(StatusCode::FORBIDDEN, "this answers only to localhost, and to its own page");
    }
    let path = request.uri().path();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match path {
        "/control" if request.method() == Method::POST => command(cluster, request.into_body()).await,
        "/control" => not_allowed("POST"),
        "/stats.json" if is_read => {
            respond(StatusCode::OK, "application/json", Picture::of(cluster).to_json())
        }
        "/metrics" if is_read => {
            respond(StatusCode::OK, metrics::CONTENT_TYPE, metrics::write(Picture::of(cluster)))
        }
        _ => match FILES.iter().find(|(name, ..)| *name == path) {
            Some((_, kind, text)) if is_read => respond(StatusCode::OK, kind, *text),
            None if !matches!(path, "/stats.json" | "/metrics") => {
                plain(StatusCode::NOT_FOUND, "there are: /, /stats.json, /metrics and /control")
            }
            _ => not_allowed("GET, HEAD"),
        },
    }
}

/// Does what a line of the control port would.
async fn command(cluster: &Cluster, body: Incoming) -> Response<Full<Bytes>> {
    let line = Limited::new(body, MAX_COMMAND).collect();
    let Ok(Ok(line)) = tokio::time::timeout(cluster.config.transfer_timeout, line).await else {
        return plain(StatusCode::BAD_REQUEST, "error no command came");
    };
    let reply = obey(cluster, &String::from_utf8_lossy(&line.to_bytes()));
    let status = if reply.starts_with("error ") { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    plain(status, reply)
}

/// Whether a request was sent to this machine by name, and by no other site's page.
///
/// A name that somebody else owns can be made to lead here, so `Host` must be one that nobody can own. The port is not
/// compared: it may be forwarded.
fn is_from_here(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let is_loopback = host.parse::<Authority>().is_ok_and(|authority| {
        let name = authority.host();
        name == "localhost"
            || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    });
    // Browsers send it with each POST, and a page cannot change it.
    let own_origin = format!("http://{host}");
    is_loopback && headers.get_all(header::ORIGIN).iter().all(|origin| *origin == *own_origin)
}

fn not_allowed(allowed: &'static str) -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, format!("allowed: {allowed}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", text.into() + "\n")
}

fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in PRECAUTIONS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).expect("it is a header"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).expect("it is a header"));
        }
        headers
    }

    #[test]
    fn only_names_that_nobody_can_own_are_answered() {
        for host in ["localhost:9094", "localhost", "127.0.0.1:1", "127.8.9.1", "[::1]:9094"] {
            assert!(is_from_here(&headers(host, None)), "{host}");
        }
        for host in ["example.com", "localhost.example.com:9094", "192.0.2.1:9094", "a b", "[::2]", ""] {
            assert!(!is_from_here(&headers(host, None)), "{host}");
        }
        assert!(!is_from_here(&HeaderMap::new()));
    }

    #[test]
    fn only_the_own_page_is_answered() {
        assert!(is_from_here(&headers("localhost:9094", Some("http://localhost:9094"))));
        for origin in ["http://localhost:9095", "https://localhost:9094", "http://example.com", "null", ""] {
            assert!(!is_from_here(&headers("localhost:9094", Some(origin))), "{origin}");
        }
    }
}
