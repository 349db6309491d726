//! A browser without a window, driven over pipes by the protocol of its own tools: no other program is between.

#![expect(clippy::print_stdout, reason = "a test that leaves something out says so")]

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::Server;
use crate::support::{PATIENCE, Project};

/// A browser with one page.
pub(super) struct Browser {
    child: Child,
    write: File,
    read: BufReader<File>,
    session: Option<String>,
    next: u64,
    events: VecDeque<Value>,
    /// Where the browser and its pipes keep their files.
    _folder: Project,
}

/// The program of the browser; without one there is nothing to try.
fn program() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        println!("left out: there is no browser among {names:?}");
    }
    found
}

impl Browser {
    pub(super) fn start() -> Option<Self> {
        let program = program()?;
        let folder = Project::new();
        let place = |name: &str| folder.path().join(name);
        for pipe in ["in", "out"] {
            let made = Command::new("mkfifo").arg(place(pipe)).status().expect("a pipe is made");
            assert!(made.success());
        }
        let options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
        ];
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<in 4>out"])
            .arg(program)
            .args(options)
            .arg(format!("--user-data-dir={}", place("data").display()))
            .arg("about:blank")
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let write = File::options().write(true).open(place("in")).expect("a pipe to the browser");
        let read = BufReader::new(File::open(place("out")).expect("a pipe from the browser"));
        let (session, events) = (None, VecDeque::new());
        let mut browser = Self { child, write, read, session, next: 1, events, _folder: folder };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attached);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.view(1440, 900, false);
        Some(browser)
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.read.read_until(0, &mut message).expect("the browser says something");
        message.pop();
        serde_json::from_slice(&message).expect("it says JSON")
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers make it where they call")]
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        let said = self.ask(method, &parameters);
        assert!(said.get("error").is_none(), "{method}: {}", said["error"]);
        said["result"].clone()
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.write.write_all(&bytes).expect("the browser listens");
        loop {
            let said = self.receive();
            if said["id"] == id {
                return said;
            }
            self.events.push_back(said);
        }
    }

    /// What an expression gives in the page, once it is settled.
    pub(super) fn js(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let found = self.call("Runtime.evaluate", parameters);
        assert!(found.get("exceptionDetails").is_none(), "{expression}: {}", found["exceptionDetails"]);
        found["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page, also in one that takes its place meanwhile.
    pub(super) fn wait(&mut self, condition: &str) {
        let until = Instant::now() + PATIENCE;
        let look = format!("(() => {{ try {{ return !!({condition}); }} catch {{ return false; }} }})()");
        loop {
            let said = self.ask("Runtime.evaluate", &json!({"expression": look}));
            if said["result"]["result"]["value"] == true {
                return;
            }
            if Instant::now() > until {
                let page = self.js("location.href + '\\n' + document.body.innerText.slice(0, 3000)");
                panic!("`{condition}` does not come true: {}", page.as_str().unwrap_or_default());
            }
        }
    }

    pub(super) fn view(&mut self, width: u32, height: u32, is_dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Opens a page, and waits until it is there.
    pub(super) fn go(&mut self, address: &str) {
        self.load(address, &format!("location.href === new URL({}).href", Value::from(address)));
    }

    /// Opens the pages of a server with its token.
    pub(super) fn enter(&mut self, server: &Server) {
        let address = format!("http://{}{}/open?token={}", server.host, server.base, server.token);
        self.load(&address, "location.pathname.endsWith('/runs')");
    }

    fn load(&mut self, address: &str, is_there: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": address}));
        let until = Instant::now() + PATIENCE;
        let look = format!("{is_there} && document.readyState === 'complete'");
        // While one page makes room for another there is none to ask.
        while self.ask("Runtime.evaluate", &json!({"expression": look}))["result"]["result"]["value"] != true
        {
            assert!(Instant::now() < until, "{address} does not load");
        }
    }

    /// Presses a key, as a reader would.
    pub(super) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" && key.chars().count() == 1 { key } else { "" };
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key, "text": text}));
        }
    }

    /// Lets the pages run scripts, or not.
    pub(super) fn scripts(&mut self, are_run: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !are_run}));
    }

    /// What went wrong in the page since it was opened: errors, and what its policy kept from happening.
    pub(super) fn problems(&mut self) -> Vec<String> {
        self.js("1");
        let is_problem = |event: &&Value| {
            let entry = &event["params"]["entry"];
            event["method"] == "Runtime.exceptionThrown"
                || event["method"] == "Page.javascriptDialogOpening"
                || event["method"] == "Log.entryAdded"
                    && entry["level"] == "error"
                    // A browser asks for this whatever a page says.
                    && !entry["url"].as_str().is_some_and(|url| url.ends_with("/favicon.ico"))
        };
        self.events.iter().filter(is_problem).map(ToString::to_string).collect()
    }

    /// The addresses that were asked for since the page was opened.
    pub(super) fn requests(&mut self) -> Vec<String> {
        self.js("1");
        let of = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        of.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    pub(super) fn picture(&mut self, path: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let encoded = shot["data"].as_str().expect("a picture");
        let started = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut decoder = started.expect("a decoder");
        let mut stdin = decoder.stdin.take().expect("a pipe");
        let encoded = encoded.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(encoded.as_bytes()));
        let output = decoder.wait_with_output().expect("a picture");
        writer.join().expect("a thread").expect("it is written");
        std::fs::write(path, output.stdout).expect("a file");
    }

    /// What axe finds wrong with the page; nothing where axe is not installed.
    pub(super) fn axe(&mut self) -> Vec<String> {
        let folder = std::env::var_os("THREADLINE_AXE").map(PathBuf::from);
        let script = folder.map(|folder| folder.join("node_modules/axe-core/axe.min.js"));
        let Some(script) = script.filter(|script| script.is_file()) else {
            println!("left out: THREADLINE_AXE names no folder with axe-core");
            return Vec::new();
        };
        let script = std::fs::read_to_string(script).expect("axe");
        if self.js("typeof axe") != "object" {
            self.js(&format!("{script}; 1"));
        }
        let found = self.js("axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations.flatMap(of => of.nodes.map(node => `${of.id}: ${node.html.slice(0, 200)} ${node.any.concat(node.all).map(check => check.message).join(' ').slice(0, 300)}`)))");
        let found = found.as_array().cloned().unwrap_or_default();
        found.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
