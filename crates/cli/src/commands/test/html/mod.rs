//! The report as one page: everything is in it, nothing is loaded, and without its script all of it is shown.

mod case;
mod escape;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use threadline_lang::diag::words;

use self::case::{answer_excerpt, mark};
use self::escape::{escaped, word};
use super::TestReport;
use super::baseline::{BaselineComparison, CaseChange};
use super::rate::PassRate;
use super::results::{TestResult, TestedFile, TriedCase};
use crate::reporter::spend_text;

const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");

/// A case with where it stands in the report.
#[derive(Clone, Copy)]
struct PageCase<'r> {
    file: &'r TestedFile,
    case: &'r TriedCase,
    /// The positions of the file in the report and of the case in the file.
    at: (usize, usize),
}

impl PageCase<'_> {
    /// The id of its element.
    fn id(&self) -> String {
        format!("case-{}-{}", self.at.0 + 1, self.at.1 + 1)
    }
}

pub(super) fn report(report: &TestReport<'_>) -> String {
    let nonce = uuid::Uuid::new_v4().simple();
    let mut page = Page { out: String::new(), report };
    page.push(&format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; base-uri 'none'; \
         form-action 'none'\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<a class=\"skip\" \
         href=\"#cases\">To the cases</a>\n",
        escaped(&page.title())
    ));
    page.push_overview();
    page.push("<main>\n");
    page.push_filters();
    page.push_changes();
    page.push("<div id=\"cases\">\n");
    for at in 0..report.files.len() {
        page.push_file(at);
    }
    page.push("</div>\n<p id=\"nothing\" class=\"nothing\" hidden>No case is like that.</p>\n");
    let version = env!("CARGO_PKG_VERSION");
    page.push(&format!("<footer>Made by <code>threadline test</code> {version}.</footer>\n</main>\n"));
    page.push(&format!("<script nonce=\"{nonce}\">\n{SCRIPT}</script>\n</body>\n</html>\n"));
    page.out
}

struct Page<'p> {
    out: String,
    report: &'p TestReport<'p>,
}

impl<'p> Page<'p> {
    fn push(&mut self, html: &str) {
        self.out.push_str(html);
    }

    fn comparison(&self) -> Option<&'p BaselineComparison<'p>> {
        self.report.comparison.as_ref()
    }

    fn cases(&self) -> impl Iterator<Item = PageCase<'p>> + use<'p> {
        self.report.files.iter().enumerate().flat_map(|(file_at, file)| {
            let cases = file.cases.iter().enumerate();
            cases.map(move |(at, case)| PageCase { file, case, at: (file_at, at) })
        })
    }

    fn title(&self) -> String {
        match self.report.files {
            [file] => file.workflow.clone(),
            files => format!("{} of scenarios", words::count(files.len(), "file")),
        }
    }

    fn push_overview(&mut self) {
        let totals = &self.report.totals;
        let rate = PassRate::new(totals.count(TestResult::Passed) as u64, totals.wanted() as u64);
        let title = escaped(&self.title());
        let files = self.report.files.iter().map(|file| escaped(&file.file));
        let started = self.report.files.first().map_or(String::new(), |file| escaped(&file.started_at));
        let subtitle = files.chain([format!("<time>{started}</time>")]).collect::<Vec<_>>().join(" · ");
        self.push(&format!(
            "<header class=\"top\">\n<div class=\"overview\">\n<div>\n<h1>{title}</h1>\n<p \
             class=\"soft\">{subtitle}</p>\n</div>\n<p class=\"rate\"><strong>{}</strong><span>{} of {} \
             passed</span></p>\n</div>\n",
            rate.percent(),
            rate.passed,
            rate.tried
        ));
        self.push("<div class=\"bar\" aria-hidden=\"true\">");
        for result in TestResult::ALL {
            let (count, class) = (totals.count(result), result.name());
            if count > 0 {
                self.push(&format!("<span class=\"{class}\" style=\"flex-grow:{count}\"></span>"));
            }
        }
        self.push("</div>\n<p class=\"facts\">");
        for result in TestResult::ALL {
            let count = totals.count(result);
            if count > 0 || result == TestResult::Passed {
                self.push(&format!("<span><b>{count}</b> {}</span>", result.words()));
            }
        }
        let mut facts = vec![words::duration(Duration::from_millis(totals.duration_ms))];
        if totals.executions != totals.cases {
            facts.push(words::count(totals.executions, "execution"));
        }
        facts.extend(spend_text(&totals.spent));
        if totals.vacuous > 0 {
            facts.push(format!("{} met without being asked", words::count(totals.vacuous, "expectation")));
        }
        for fact in facts {
            self.push(&format!("<span>{}</span>", escaped(&fact)));
        }
        self.push("</p>\n</header>\n");
    }

    fn push_filters(&mut self) {
        self.push(
            "<noscript><p class=\"soft\">Filters need JavaScript. Everything is below.</p></noscript>\n<form \
             id=\"filters\" class=\"filters\" role=\"search\" aria-label=\"Filter the cases\" hidden>\n<div \
             class=\"row\">\n<input id=\"search\" type=\"search\" placeholder=\"Search prompts, answers, reasons\" \
             aria-label=\"Search the cases\" aria-keyshortcuts=\"/\">\n",
        );
        let scenarios: Vec<_> = self.cases().map(|case| &case.case.scenario).collect();
        let tags: BTreeSet<&str> =
            scenarios.iter().flat_map(|scenario| scenario.tags.iter().map(ecow::EcoString::as_str)).collect();
        let targets: BTreeSet<&str> =
            scenarios.iter().filter_map(|scenario| scenario.target.as_deref()).collect();
        self.push_choice("tag", "All tags", tags.into_iter().map(|tag| (tag, tag)));
        self.push_choice("target", "All targets", targets.into_iter().map(|target| (target, target)));
        if let Some(comparison) = self.comparison() {
            let changes = CaseChange::ALL.into_iter().filter(|change| comparison.count(*change) > 0);
            let changes = changes.map(|change| (change.name(), change.words()));
            self.push_choice("change", "Changed or not", changes);
        }
        self.push("</div>\n<div class=\"row\">\n");
        for result in TestResult::ALL {
            let count = self.report.totals.count(result);
            if count > 0 {
                self.push(&format!(
                    "<button type=\"button\" class=\"chip\" data-result=\"{}\" \
                     aria-pressed=\"false\">{}<b>{count}</b></button>\n",
                    result.name(),
                    result.words()
                ));
            }
        }
        self.push(
            "<span id=\"count\" class=\"count\" role=\"status\"></span>\n<button type=\"button\" id=\"open\">Open \
             all</button>\n</div>\n</form>\n",
        );
    }

    fn push_choice<'a>(
        &mut self,
        name: &str,
        label: &str,
        choices: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let options: Vec<String> = choices
            .map(|(value, text)| format!("<option value=\"{}\">{}</option>", escaped(value), escaped(text)))
            .collect();
        let options = options.concat();
        if !options.is_empty() {
            self.push(&format!(
                "<select name=\"{name}\" aria-label=\"{label}\"><option \
                 value=\"\">{label}</option>{options}</select>\n"
            ));
        }
    }

    /// What has changed since the baseline.
    fn push_changes(&mut self) {
        let Some(comparison) = self.comparison() else { return };
        self.push("<section class=\"changes\" aria-label=\"Changes since the baseline\">\n");
        self.push(&format!("<h2>Compared with <code>{}</code></h2>\n", escaped(comparison.baseline)));
        let mut items = String::new();
        for change in CaseChange::ALL {
            for case in self.cases().filter(|case| comparison.change(case.at.0, case.at.1) == Some(change)) {
                let (badge, id, name) = (change_badge(change), case.id(), escaped(&case.case.name()));
                // Writing into a text cannot fail.
                let _ = writeln!(items, "<li>{badge} <a href=\"#{id}\">{name}</a></li>");
            }
        }
        for case in &comparison.missing {
            let name = escaped(&case.name);
            let _ = writeln!(items, "<li><span class=\"badge unsure\">missing</span> {name}</li>");
        }
        if items.is_empty() {
            self.push("<p>Nothing has changed.</p>\n");
        } else {
            self.push(&format!("<ul>\n{items}</ul>\n"));
        }
        self.push("</section>\n");
    }

    fn push_file(&mut self, at: usize) {
        let file = &self.report.files[at];
        self.push(&format!(
            "<section class=\"file\">\n<header><h2>{}</h2><span class=\"soft\">{} · run <code>{}</code> · \
             {}</span></header>\n",
            escaped(&file.workflow),
            escaped(&file.file),
            escaped(&file.run),
            words::duration(Duration::from_millis(file.duration_ms))
        ));
        if file.outcome.is_none() {
            self.push(&format!(
                "<p class=\"soft\">The run stopped before its end; <code>threadline resume {}</code> goes on.</p>\n",
                escaped(&file.run)
            ));
        }
        let cases: Vec<PageCase<'_>> = self.cases().filter(|case| case.at.0 == at).collect();
        for group in cases.chunk_by(|one, next| one.case.scenario.id == next.case.scenario.id) {
            self.push_scenario(group);
        }
        self.push("</section>\n");
    }

    /// A scenario with its cases; where there are several targets, they stand side by side first.
    fn push_scenario(&mut self, cases: &[PageCase<'_>]) {
        let Some(first) = cases.first() else { return };
        let scenario = &first.case.scenario;
        self.push("<section class=\"scenario\">\n");
        let is_alone = cases.len() == 1;
        if !is_alone || scenario.description.is_some() {
            let tags = tags(&first.case.scenario.tags);
            let description = scenario.description.as_deref();
            let description = description.map_or(String::new(), |text| format!("<p>{}</p>", escaped(text)));
            let name = escaped(&scenario.name);
            self.push(&format!("<header><h3>{name} {tags}</h3>{description}</header>\n"));
        }
        let targets: Vec<&str> =
            distinct(cases.iter().filter_map(|case| case.case.scenario.target.as_deref()));
        if targets.len() > 1 {
            self.push_targets(cases, &targets);
        }
        for case in cases {
            let change = self.comparison().and_then(|comparison| comparison.change(case.at.0, case.at.1));
            let before = self.comparison().and_then(|comparison| comparison.before(case.at.0, case.at.1));
            let shown = case::ShownCase { case, is_alone, change, before };
            shown.write(&mut self.out);
        }
        self.push("</section>\n");
    }

    /// A row for each case and a column for each target.
    fn push_targets(&mut self, cases: &[PageCase<'_>], targets: &[&str]) {
        let name_of = |case: &PageCase<'_>| case.case.case.as_ref().map(|(name, _)| name.clone());
        let mut rows: Vec<Option<String>> = Vec::new();
        for name in cases.iter().map(name_of) {
            if !rows.contains(&name) {
                rows.push(name);
            }
        }
        let has_names = rows.iter().any(Option::is_some);
        self.push("<div class=\"compare\" tabindex=\"0\" role=\"region\" aria-label=\"Targets side by side\"><table>");
        self.push("<thead><tr>");
        if has_names {
            self.push("<th scope=\"col\">case</th>");
        }
        for target in targets {
            self.push(&format!("<th scope=\"col\">{}</th>", escaped(target)));
        }
        self.push("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.push("<tr>");
            if let Some(name) = &row {
                self.push(&format!("<th scope=\"row\">{}</th>", escaped(name)));
            } else if has_names {
                self.push("<td></td>");
            }
            for target in targets {
                let is_here = |case: &&PageCase<'_>| {
                    case.case.scenario.target.as_deref() == Some(*target) && name_of(case) == row
                };
                self.push("<td>");
                for case in cases.iter().filter(is_here) {
                    self.push(&target_cell(case));
                }
                self.push("</td>");
            }
            self.push("</tr>\n");
        }
        self.push("</tbody></table></div>\n");
    }
}

fn target_cell(case: &PageCase<'_>) -> String {
    let mut details = Vec::new();
    if let Some(rate) = case.case.rate() {
        details.push(format!("{} of {} passed", rate.passed, rate.tried));
    }
    if !case.case.executions.is_empty() {
        details.push(words::duration(Duration::from_millis(case.case.duration_ms())));
    }
    details.extend(spend_text(&case.case.spent()));
    format!(
        "<a href=\"#{}\">{}<span><span class=\"said\">{}</span><small>{}</small></span></a>",
        case.id(),
        mark(case.case.result.name(), case.case.result.words()),
        escaped(&answer_excerpt(case.case)),
        escaped(&details.join(" · "))
    )
}

fn change_badge(change: CaseChange) -> String {
    let class = match change {
        CaseChange::NewlyFailing => "bad",
        CaseChange::NewlyPassing => "good",
        CaseChange::OtherAnswer => "unsure",
        CaseChange::New => "rest",
    };
    format!("<span class=\"badge {class}\">{}</span>", change.words())
}

fn tags(tags: &[ecow::EcoString]) -> String {
    let tags: Vec<String> =
        tags.iter().map(|tag| format!("<span class=\"tag\">{}</span>", escaped(tag))).collect();
    let tags = tags.concat();
    if tags.is_empty() { tags } else { format!("<span class=\"tags\">{tags}</span>") }
}

fn tag_words(tags: &[ecow::EcoString]) -> String {
    tags.iter().map(|tag| word(tag)).collect::<Vec<_>>().join(" ")
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
