//! The page behind `HAProxy`, as the reference configures it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::{A_MOMENT, Reply, Served, Server};
use crate::machines::cluster::{free_port, haproxy};
use crate::support::PATIENCE;

/// `HAProxy`, which ends with the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The configuration of the reference, at a port of this machine and without TLS.
fn configuration(port: u16, server: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/page.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once("```text\ndefaults\n").expect("a configuration");
    let (block, _) = rest.split_once("```").expect("its end");
    let bind = "bind :443 ssl crt /etc/ssl/ci.example.org.pem";
    assert!(block.contains(bind) && block.contains("127.0.0.1:7117"), "{block}");
    let block = block.replace(bind, &format!("bind 127.0.0.1:{port}"));
    format!("defaults\n{}", block.replace("127.0.0.1:7117", server))
}

#[test]
fn a_proxy_may_stand_before_the_page() {
    let Some(program) = haproxy() else {
        println!("left out: there is no haproxy; .ci/run installs it");
        return;
    };
    let mut served = Served::new(&[]);
    let port = free_port();
    let token = "k3v9t2mp".repeat(8);
    served.project.write("token", token.as_bytes());
    let public = format!("http://127.0.0.1:{port}/runs");
    let folder = served.project.path();
    let behind = Server::start(folder, &["--public-url", &public, "--token-file", "token"]);
    // What is printed is the public address; the server itself listens elsewhere.
    assert_eq!((behind.host.as_str(), behind.base.as_str()), (format!("127.0.0.1:{port}").as_str(), "/runs"));
    let own = behind.listens_at();
    served.project.write("haproxy.cfg", configuration(port, &own).as_bytes());
    let mut command = Command::new(program);
    let command = command.args(["-db", "-q", "-f", "haproxy.cfg"]).current_dir(served.project.path());
    let _proxy = Proxy(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("haproxy starts"));
    let deadline = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(&behind.host).is_err() {
        assert!(Instant::now() < deadline, "haproxy does not listen");
        std::thread::sleep(A_MOMENT);
    }
    served.server = behind;
    let (client, run) = (&served.server, "/runs/api/projects/project/runs");
    let bearer = format!("Bearer {token}");
    let ask = |path: &str, fields: &[(&str, &str)]| -> Reply {
        let known = [("host", client.host.as_str()), ("authorization", bearer.as_str())];
        client.request("GET", path, &[&known, fields].concat(), b"")
    };
    let listed = ask(run, &[]);
    assert_eq!(listed.status, 200, "{}", listed.text());
    let id = listed.json()["runs"][0]["run"].as_str().expect("a run").to_owned();
    let origin = format!("http://{}", client.host);
    assert_eq!(ask(run, &[("origin", &origin)]).status, 200);
    assert_eq!(ask(run, &[("origin", &format!("http://{own}"))]).status, 403, "the origin behind the proxy");
    let stranger = client.request("GET", run, &[("host", &client.host)], b"");
    assert_eq!(stranger.status, 401);
    let elsewhere = client.request("GET", run, &[("host", "evil.example"), ("authorization", &bearer)], b"");
    assert_eq!(elsewhere.status, 421);
    let page = ask("/runs/", &[]);
    assert_eq!(page.status, 303);
    let place = page.field("location").expect("a place");
    assert!(place.starts_with("/runs/") && place.ends_with("/projects/project/runs"), "{place}");
    assert!(ask(&place, &[]).text().contains(&id));
    let mut stream =
        super::streams::Stream::open_as(&client.host, &format!("{run}/{id}/events"), &token, Some(1))
            .expect("a stream");
    assert_eq!(stream.wait(), super::streams::Told::Event(2), "events are not kept back");
}
