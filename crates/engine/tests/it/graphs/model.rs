//! What a graph comes to, said once more and as simply as possible: no events, no order, no counting. Every
//! node whose sources have all ended gets its end; that is repeated until nothing changes.

use std::fmt::Write;

use threadline_engine::random::Random;

/// A node, what it waits for, and what will become of it when it begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) edges: Vec<Source>,
    pub(crate) needs: Vec<Source>,
    /// The nodes whose values it reads.
    pub(crate) reads: Vec<usize>,
    /// The nodes that it reads with a default, or only the meta data of.
    pub(crate) waits: Vec<usize>,
    /// Whether it is a conditional, and the branch it takes.
    pub(crate) gate: Option<bool>,
    /// What its `when` comes to, when it has one.
    pub(crate) when: Option<bool>,
    pub(crate) fails: bool,
    pub(crate) continue_on_error: bool,
    /// Whether it has lists of steps for its end.
    pub(crate) lists: bool,
}

/// A node, and the branch of it that must have been taken.
pub(crate) type Source = (usize, Option<bool>);

/// How a node ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Failed,
    Skipped(String),
}

impl Node {
    pub(crate) fn sources(&self) -> impl Iterator<Item = usize> {
        let named = self.edges.iter().chain(&self.needs).map(|(node, _)| *node);
        named.chain(self.reads.iter().copied()).chain(self.waits.iter().copied())
    }
}

/// How every node ends, when some have ended already.
pub(crate) fn ends(nodes: &[Node], mut ends: Vec<Option<End>>) -> Vec<End> {
    loop {
        let over = |node: usize| ends[node].is_some();
        let next: Vec<usize> =
            (0..nodes.len()).filter(|at| !over(*at) && nodes[*at].sources().all(over)).collect();
        if next.is_empty() {
            return ends.into_iter().map(|end| end.expect("every node of an acyclic graph ends")).collect();
        }
        for at in next {
            ends[at] = Some(end(nodes, at, &ends));
        }
    }
}

fn end(nodes: &[Node], at: usize, ends: &[Option<End>]) -> End {
    let node = &nodes[at];
    // What it reads is looked at in the order of the file, behind what it needs.
    let mut reads: Vec<usize> = node.reads.clone();
    reads.sort_unstable();
    let hard = node.needs.iter().copied().chain(reads.into_iter().map(|read| (read, None)));
    if let Some(reason) = hard.into_iter().find_map(|source| unmet(nodes, source, ends)) {
        return End::Skipped(reason);
    }
    let dead = |source: &Source| {
        let goes_on = nodes[source.0].continue_on_error && source.1.is_none();
        if ends[source.0] == Some(End::Failed) && goes_on { None } else { unmet(nodes, *source, ends) }
    };
    let dead: Vec<Option<String>> = node.edges.iter().map(dead).collect();
    if let Some(Some(reason)) = dead.first()
        && dead.iter().all(Option::is_some)
    {
        return End::Skipped(reason.clone());
    }
    match node {
        Node { when: Some(false), .. } => End::Skipped("`when` is false".to_owned()),
        Node { fails: true, .. } => End::Failed,
        _ => End::Completed,
    }
}

/// Why a node that must have completed has not, when it has not.
fn unmet(nodes: &[Node], (node, branch): Source, ends: &[Option<End>]) -> Option<String> {
    match (&ends[node], branch) {
        (Some(End::Completed), Some(branch)) if nodes[node].gate != Some(branch) => {
            Some(format!("branch `{branch}` of `n{node}` was not taken"))
        }
        (Some(End::Completed), _) => None,
        (Some(End::Failed), _) => Some(format!("`n{node}` failed")),
        _ => Some(format!("`n{node}` was skipped")),
    }
}

/// The ends that stay when a run that failed goes on: all but those of failures and of what was skipped.
pub(crate) fn kept(nodes: &[Node], ends: &[End]) -> Vec<Option<End>> {
    let stays = |(node, end): (&Node, &End)| match end {
        End::Completed => true,
        End::Failed => node.continue_on_error,
        End::Skipped(_) => false,
    };
    let pairs = nodes.iter().zip(ends);
    pairs.map(|pair| stays(pair).then(|| pair.1.clone())).collect()
}

/// Whether the run fails.
pub(crate) fn fails(nodes: &[Node], ends: &[End]) -> bool {
    nodes.iter().zip(ends).any(|(node, end)| *end == End::Failed && !node.continue_on_error)
}

/// How the nodes of a random graph lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    Any,
    Chain,
    Wide,
}

/// A random graph. Its nodes stand in any order in the file.
pub(crate) fn random(seed: u64, size: usize, form: Form) -> Vec<Node> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..size).collect();
    for at in (1..size).rev() {
        order.swap(at, below(&mut random, at + 1));
    }
    let mut nodes = vec![Node::default(); size];
    for (before, at) in order.iter().copied().enumerate() {
        let gate = random.percent(30).then(|| random.percent(50));
        let when = random.percent(10).then(|| random.percent(60));
        let fails = random.percent(8);
        let continue_on_error = random.percent(20);
        let lists = random.percent(15);
        let mut node = Node { gate, when, fails, continue_on_error, lists, ..Node::default() };
        let count = match form {
            Form::Any => random.below(4),
            Form::Chain => 1,
            Form::Wide => u64::from(random.percent(60)),
        };
        for _ in 0..if before == 0 { 0 } else { count } {
            let source = order[match form {
                Form::Any => below(&mut random, before),
                Form::Chain => before - 1,
                Form::Wide => below(&mut random, before.min(2)),
            }];
            let branch = nodes[source].gate.filter(|_| random.percent(70)).map(|_| random.percent(60));
            match random.below(10) {
                0..5 => node.edges.push((source, branch)),
                5..7 => node.needs.push((source, branch)),
                7..9 => node.reads.push(source),
                _ => node.waits.push(source),
            }
        }
        nodes[at] = node;
    }
    nodes
}

fn below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).unwrap_or(0)
}

/// The graph as a file.
pub(crate) fn text(nodes: &[Node]) -> String {
    let mut text = String::from("nodes:\n");
    for (at, node) in nodes.iter().enumerate() {
        // A graph is as likely to read in a condition as in a value.
        let reads = node.reads.iter().map(|read| format!("n{read}"));
        let waits = node.waits.iter().map(|read| match (at + read) % 3 {
            0 => format!("default(n{read}, 0)"),
            1 => format!("n{read}.meta.status"),
            _ => format!("exists(n{read})"),
        });
        let list = format!("[{}]", reads.chain(waits).collect::<Vec<_>>().join(", "));
        let does = match node.gate {
            Some(_) => format!("condition: \"{list} == []\""),
            None => format!("value: \"${{= {list} }}\""),
        };
        writeln!(text, "  n{at}:\n    {does}").expect("text");
        if node.when.is_some() {
            text.push_str("    when: workflow.name == 'x'\n");
        }
        if node.continue_on_error {
            text.push_str("    continue_on_error: true\n");
        }
        if node.lists {
            for (list, name) in [("on_failure", "f"), ("on_success", "s"), ("finally", "l")] {
                writeln!(text, "    {list}: [{{value: 1}}, {{value: '${{prev}}', capture: {name}{at}}}]")
                    .expect("text");
            }
        }
        let needs: Vec<String> = node.needs.iter().map(|source| named(*source)).collect();
        if !needs.is_empty() {
            writeln!(text, "    needs: [{}]", needs.join(", ")).expect("text");
        }
    }
    let edges = nodes.iter().enumerate().flat_map(|(to, node)| node.edges.iter().map(move |edge| (to, edge)));
    for (place, (to, (from, branch))) in edges.enumerate() {
        text.push_str(if place == 0 { "edges:\n" } else { "" });
        let branch = branch.map_or(String::new(), |branch| format!(", branch: {branch}"));
        writeln!(text, "  - {{from: n{from}, to: n{to}{branch}}}").expect("text");
    }
    text
}

fn named((node, branch): Source) -> String {
    branch.map_or(format!("n{node}"), |branch| format!("n{node}.{branch}"))
}
