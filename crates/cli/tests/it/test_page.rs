//! The page that `threadline test --report html=FILE` writes: what is in it, and what a browser makes of it.

#![expect(clippy::unwrap_used, reason = "a page that cannot be read fails the test")]
#![expect(clippy::print_stdout, reason = "a test that leaves something out says so")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use regex::Regex;

use crate::support::Project;
use crate::test_reports::support;

fn page_of(project: &Project, arguments: &[&str]) -> String {
    let all: Vec<&str> =
        ["test", "--jobs", "1", "--report", "html=page.html"].iter().chain(arguments).copied().collect();
    let outcome = project.run(&all, b"");
    assert!(outcome.exit <= 1, "{}{}", outcome.stdout, outcome.stderr);
    project.read("page.html").unwrap()
}

/// The page without its style and its script.
fn body(page: &str) -> &str {
    page.split("</style>").nth(1).unwrap().split("<script nonce=").next().unwrap()
}

#[test]
fn the_page_has_everything_that_was_said() {
    let page = page_of(&support(), &[]);
    for text in [
        "<strong>57.1 %</strong><span>4 of 7 passed</span>",
        "What is open?",
        "Hello, What is open?",
        "`text` does not contain &quot;Hello&quot;",
        "support.test.yaml:16:9",
        "<th scope=\"col\">polite</th><th scope=\"col\">short</th>",
        "2 of 3 · 66.7 % <span title=\"95 % confidence\">(20.8 % to 93.9 %)</span>",
        "<span class=\"badge unsure\">flaky</span>",
        "it greets",
        "no connection",
        "not ready",
        "<option value=\"tone\">tone</option>",
        "threadline explain ",
        "<noscript>",
    ] {
        assert!(page.contains(text), "no `{text}`");
    }
}

/// Nothing of the page is anywhere else, and nothing in it may load anything.
#[test]
fn the_page_asks_nobody() {
    let page = page_of(&support(), &[]);
    for text in ["http:", "https:", "src=", "@import", "url(", "<link", "<iframe", "<img", "import("] {
        assert!(!page.contains(text), "`{text}`");
    }
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-"));
}

#[test]
fn hostile_texts_stay_texts() {
    let project = Project::new();
    let hostile =
        r#"</script></style></pre><script>document.title='owned'</script><img src=x onerror=alert(1)>"'"#;
    project.write("answer", format!("{hostile}\u{1b}[31mred\u{202e}txt.\u{0}").as_bytes());
    let text = serde_json::to_string(hostile).unwrap();
    let scenario = format!(
        "name: {text}\ntarget: {{argv: [cat, answer]}}\nscenarios:\n- id: a\n  name: {text}\n  description: {text}\n  \
         tags: [{text}]\n  targets: {{one: {{argv: [cat, answer]}}, two: {{argv: [cat, answer]}}}}\n  cases: [{{name: \
         {text}}}]\n  prompt: {text}\n  expectations: {{shouldContain: {text}, text: {{matches: nothing}}}}\n"
    );
    project.write("h.test.yaml", scenario.replace("target: {argv: [cat, answer]}\n", "").as_bytes());
    let page = page_of(&project, &[]);
    let body = body(&page);
    assert!(!body.contains("<script") && !body.contains("<img") && !body.contains("</pre><"), "{body}");
    assert!(!body.contains(['\u{1b}', '\u{202e}', '\u{0}']));
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(body.contains("&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;"), "{body}");
    let Some(browser) = Browser::find() else { return };
    let shown = browser.page(&project, "#open=1");
    assert!(!shown.contains("<title>owned</title>"), "a script of an answer ran");
    assert_eq!(Browser::cases(&shown).len(), 2);
}

/// A browser without a window.
struct Browser(PathBuf);

/// A case as the browser has it.
#[derive(Debug, PartialEq, Eq)]
struct BrowserCase {
    id: String,
    is_hidden: bool,
    is_open: bool,
}

impl Browser {
    /// The browser of this machine; without one there is nothing to try.
    fn find() -> Option<Self> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let paths = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        let found = paths.into_iter().find(|path| path.is_file());
        if found.is_none() {
            println!("left out: there is no browser among {names:?}");
        }
        found.map(Self)
    }

    /// The page as it is after its script has run.
    fn page(&self, project: &Project, hash: &str) -> String {
        self.opened(project, "page.html", hash, &[])
    }

    /// The same of a copy of the page with a script of the test at its end.
    fn scripted(&self, project: &Project, script: &str, options: &[&str]) -> String {
        let page = project.read("page.html").unwrap();
        let nonce = page.split("<script nonce=\"").nth(1).unwrap().split('"').next().unwrap();
        let script = format!("<script nonce=\"{nonce}\">{script}</script></body>");
        project.write("scripted.html", page.replace("</body>", &script).as_bytes());
        self.opened(project, "scripted.html", "", options)
    }

    fn opened(&self, project: &Project, file: &str, hash: &str, options: &[&str]) -> String {
        let mut command = Command::new(&self.0);
        let data = project.path().join("browser");
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--virtual-time-budget=10000",
            "--dump-dom",
        ]);
        command.args(options);
        command.arg(format!("--user-data-dir={}", data.display()));
        command.arg(format!("file://{}{hash}", project.path().join(file).display()));
        command.env("HOME", project.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.contains("</html>"), "{shown}{}", String::from_utf8_lossy(&output.stderr));
        shown
    }

    fn cases(shown: &str) -> Vec<BrowserCase> {
        let tag = Regex::new(r#"<details class="case" id="([^"]+)"([^>]*)>"#).unwrap();
        let case = |found: regex::Captures<'_>| BrowserCase {
            id: found[1].to_owned(),
            is_hidden: found[2].contains("hidden="),
            is_open: found[2].contains("open="),
        };
        tag.captures_iter(shown).map(case).collect()
    }

    /// The ids of the cases that the page shows, and of those that are open.
    fn shown(&self, project: &Project, hash: &str) -> (Vec<String>, Vec<String>) {
        Self::shown_in(&self.page(project, hash))
    }

    fn shown_in(page: &str) -> (Vec<String>, Vec<String>) {
        let cases = Self::cases(page);
        assert_eq!(cases.len(), 8, "{cases:?}");
        let ids = |wanted: &dyn Fn(&BrowserCase) -> bool| -> Vec<String> {
            cases.iter().filter(|case| wanted(case)).map(|case| case.id.clone()).collect()
        };
        (ids(&|case| !case.is_hidden), ids(&|case| case.is_open))
    }
}

#[test]
fn a_browser_filters_and_opens_what_a_link_says() {
    let Some(browser) = Browser::find() else { return };
    let project = support();
    page_of(&project, &[]);
    let all: Vec<String> = (1..=8).map(|number| format!("case-1-{number}")).collect();
    assert_eq!(browser.shown(&project, ""), (all.clone(), vec![]));
    let ids = |numbers: &[usize]| numbers.iter().map(|at| all[at - 1].clone()).collect::<Vec<_>>();
    assert_eq!(browser.shown(&project, "#result=failed&open=1"), (ids(&[2]), ids(&[2])));
    assert_eq!(browser.shown(&project, "#result=errored,not_evaluable").0, ids(&[5, 7]));
    assert_eq!(browser.shown(&project, "#tag=tone&target=short").0, ids(&[2]));
    assert_eq!(browser.shown(&project, "#text=no%20connection").0, ids(&[7]));
    assert_eq!(browser.shown(&project, "#text=nobody%20says%20this").0, ids(&[]));
    // A link to a case opens it, and hides nothing.
    assert_eq!(browser.shown(&project, "#case-1-7"), (all.clone(), ids(&[7])));
    let shown = browser.page(&project, "#result=failed");
    assert!(shown.contains("1 of 8 cases"), "{shown}");
    assert!(shown.contains("data-result=\"failed\" aria-pressed=\"true\""), "{shown}");
}

#[test]
fn a_browser_clicks_a_filter_and_opens_a_failure() {
    let Some(browser) = Browser::find() else { return };
    let project = support();
    page_of(&project, &[]);
    let click = "const click = selector => document.querySelector(selector).click();";
    let failed = "click('.chip[data-result=failed]');";
    let open = "click('details.case:not([hidden]) > summary');";
    let shown = browser.scripted(&project, &format!("{click}{failed}"), &[]);
    assert_eq!(Browser::shown_in(&shown), (vec!["case-1-2".to_owned()], vec![]));
    let shown = browser.scripted(&project, &format!("{click}{failed}{open}"), &[]);
    assert_eq!(Browser::shown_in(&shown), (vec!["case-1-2".to_owned()], vec!["case-1-2".to_owned()]));
    // A second click takes the filter away again.
    let shown = browser.scripted(&project, &format!("{click}{failed}{failed}"), &[]);
    assert_eq!(Browser::shown_in(&shown).0.len(), 8);
}

/// Nothing on the page is wider than a telephone, whatever is open.
#[test]
fn a_narrow_browser_scrolls_in_one_direction() {
    let Some(browser) = Browser::find() else { return };
    let project = support();
    page_of(&project, &[]);
    let script = "document.querySelectorAll('details').forEach(part => { part.open = true; });\
                  const wide = [...document.querySelectorAll('.judges, .judges *, .say, .checks *, .command *')]\
                    .filter(part => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0\
                      && getComputedStyle(part).display !== 'inline');\
                  const names = wide.map(part => part.tagName + '.' + part.className).join(' ');\
                  const cells = [...document.querySelectorAll('.judges td')].map(cell => cell.clientWidth);\
                  const page = document.documentElement.scrollWidth;\
                  parent.postMessage([innerWidth, page, Math.min(...cells), names].join('|'), '*');";
    browser.scripted(&project, script, &[]);
    for width in [375_u32, 1200] {
        // A window may not be as narrow as that; a frame may.
        let frame = format!(
            "<!doctype html><html><body><script>onmessage = told => {{ document.body.dataset.measured = told.data; \
             }};</script><iframe src=\"scripted.html\" style=\"width:{width}px;height:2000px;border:0\"></iframe></body></html>"
        );
        project.write("frame.html", frame.as_bytes());
        let shown = browser.opened(&project, "frame.html", "", &["--window-size=1400,2100"]);
        let measured = shown.split("data-measured=\"").nth(1).unwrap().split('"').next().unwrap();
        let parts: Vec<&str> = measured.split('|').collect();
        let [inner, scrolled, cell, wide] = parts[..] else { panic!("{measured}") };
        println!("a frame of {inner} has a page of {scrolled}, cells of {cell}, too wide: `{wide}`");
        assert_eq!((inner, wide), (&*width.to_string(), ""));
        assert!(scrolled.parse::<u32>().unwrap() <= width, "{measured}");
        // What judges said is no column of single words.
        assert!(width > 500 || cell.parse::<u32>().unwrap() >= 200, "{measured}");
    }
}
