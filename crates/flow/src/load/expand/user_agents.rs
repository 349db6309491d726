//! Settings of agents that hold for every workflow of a user, and prices of models: they are written into the agents of a
//! file before these are read, with the places where they stand.

use ecow::EcoString;
use threadline_lang::Syntax;
use threadline_lang::diag::Span;
use threadline_lang::source::{SourceFile, TreeEntry, TreeNode};

use super::parts::with_node;
use super::{Expander, NodeEntries, entries};
use crate::checks::Check;
use crate::fields::{AGENT, DEFAULT_PROVIDER, PROVIDERS, ProviderSpec, SettingForm, USER_AGENTS};
use crate::files::is_user_agents;
use crate::load::read::{shown, span_of, unknown_key};
use crate::problem::{self, Problem};

/// The key of what tokens cost.
const PRICE: &str = "price";

/// What belongs to an address: nobody else is sent the key of one.
const OF_ADDRESS: [&str; 2] = ["api_key", "headers"];

impl Expander<'_> {
    /// Adds what the user-wide file says of agents, and the prices of models, to the agents of a file.
    pub(super) fn add_user_agents(&mut self, root: TreeNode) -> TreeNode {
        if let Some(lacking) = self.file.lacking(crate::files::USER_AGENTS) {
            let problem = Check::UnreadableCall
                .at(Span::new(root.span.range().start, root.span.range().start), &*lacking.message);
            let problem = lacking.hints.iter().cloned().fold(problem, Problem::hint);
            self.report(problem);
        }
        let user = self.user_agents();
        let Some(agents) = root.entry("agents").filter(|agents| agents.node.value.as_object().is_some())
        else {
            return root;
        };
        let prices = [root.get("prices"), user.as_ref().and_then(|user| user.get("prices"))];
        let mut secrets: Vec<(EcoString, TreeEntry)> = Vec::new();
        let all = agents.node.entries().map(|(name, agent)| {
            let completed = self.completed(&agent.node, user.as_ref(), &prices, &mut secrets);
            (EcoString::from(name), with_node(agent, completed))
        });
        let all: NodeEntries = all.collect();
        let agents = with_node(agents, self.make_object(all, agents.node.span));
        let mut own = entries(&root);
        for (key, entry) in &mut own {
            if key == "agents" {
                *entry = agents.clone();
            }
        }
        self.add_secrets(&mut own, secrets, root.span);
        self.make_object(own, root.span)
    }

    /// The user-wide file, whose keys are known.
    fn user_agents(&mut self) -> Option<TreeNode> {
        let part = self.file.parts().find(|part| is_user_agents(part.name()))?;
        let user = match self.file.read_part(part.name(), &Syntax::DEFAULT.limits)? {
            Ok(user) => user,
            Err(error) => {
                self.report(Problem { file: Some(part), ..problem::of_reading(&error) });
                return None;
            }
        };
        if user.value.is_null() {
            return None;
        }
        if user.value.as_object().is_none() {
            let message = format!("{} is an object, not {}", USER_AGENTS.title, shown(&user.value));
            self.report(Check::WrongType.at(span_of(&user), message));
            return None;
        }
        for (key, entry) in user.entries().filter(|(key, _)| USER_AGENTS.key(key).is_none()) {
            self.report(unknown_key(&USER_AGENTS, key, entry.key_span, 0));
        }
        for (word, entry) in user.get("providers").into_iter().flat_map(TreeNode::entries) {
            let Some(provider) = PROVIDERS.iter().find(|provider| provider.word.name == word) else {
                let words =
                    PROVIDERS.iter().map(|provider| provider.word.name).collect::<Vec<_>>().join(", ");
                let message = format!("there is no provider `{word}`: they are {words}");
                self.report(Check::UnknownKey.at(entry.key_span, message));
                continue;
            };
            for (key, setting) in entry.node.entries().filter(|(key, _)| !is_setting(provider, key)) {
                let problem = unknown_key(&provider.object, key, setting.key_span, 0);
                let known = provider.object.key(key).is_some();
                let message = format!("`{key}` has no default: it is written in the agent itself");
                self.report(if known { Check::KeyNotHere.at(setting.key_span, message) } else { problem });
            }
        }
        self.check_prices(user.get("prices"));
        Some(user)
    }

    fn check_prices(&mut self, prices: Option<&TreeNode>) {
        for (model, price) in prices.into_iter().flat_map(TreeNode::entries) {
            if !SettingForm::Price.fits(&price.node.value) {
                let expected = SettingForm::Price.expected();
                let message =
                    format!("the price of `{model}` is {expected}, not {}", shown(&price.node.value));
                self.report(Check::WrongType.at(span_of(&price.node), message));
            }
        }
    }

    /// An agent with what it does not say itself.
    fn completed(
        &mut self,
        agent: &TreeNode,
        user: Option<&TreeNode>,
        prices: &[Option<&TreeNode>; 2],
        secrets: &mut Vec<(EcoString, TreeEntry)>,
    ) -> TreeNode {
        if agent.value.as_object().is_none() {
            return agent.clone();
        }
        let word = agent.get("provider").map_or(Some(DEFAULT_PROVIDER.word.name), |word| word.value.as_str());
        let provider = PROVIDERS.iter().find(|provider| Some(provider.word.name) == word);
        let Some(provider) = provider else { return agent.clone() };
        let mut all = entries(agent);
        let defaults = user.and_then(|user| user.get("providers")?.get(provider.word.name));
        let has_address = agent.get(crate::fields::BASE_URL).is_some();
        for (key, entry) in defaults.into_iter().flat_map(TreeNode::entries) {
            let is_others = has_address && OF_ADDRESS.contains(&key);
            if agent.get(key).is_some() || is_others || !is_setting(provider, key) {
                continue;
            }
            all.push((key.into(), entry.clone()));
            let named = user.and_then(|user| user.get("secrets")).into_iter().flat_map(TreeNode::entries);
            let text = entry.node.value.to_json(threadline_lang::value::JsonStyle::Compact);
            secrets.extend(
                named
                    .filter(|(name, _)| text.contains(&format!("secrets.{name}")))
                    .map(|(name, secret)| (EcoString::from(name), secret.clone())),
            );
        }
        let model =
            all.iter().find(|(key, _)| key == "model").and_then(|(_, model)| model.node.value.as_str());
        let price = model.and_then(|model| prices.iter().find_map(|prices| prices.as_ref()?.entry(model)));
        if let Some(price) = price
            && provider.object.key(PRICE).is_some()
            && all.iter().all(|(key, _)| key != PRICE)
        {
            all.push((PRICE.into(), price.clone()));
        }
        self.make_object(all, agent.span)
    }

    /// Declares the secrets that settings of the user-wide file read, unless the file declares them itself.
    fn add_secrets(&mut self, root: &mut NodeEntries, secrets: Vec<(EcoString, TreeEntry)>, span: Span) {
        if secrets.is_empty() {
            return;
        }
        let own = root.iter().position(|(key, _)| key == "secrets");
        let mut all = own.map_or_else(Vec::new, |at| entries(&root[at].1.node));
        for (name, secret) in secrets {
            if all.iter().all(|(known, _)| *known != name) {
                all.push((name, secret));
            }
        }
        if let Some(at) = own {
            let declared = root[at].1.clone();
            root[at].1 = with_node(&declared, self.make_object(all, declared.node.span));
        } else {
            let node = self.make_object(all, span);
            root.push(("secrets".into(), TreeEntry::made(span, node)));
        }
    }
}

/// Whether a key is a setting of a provider that may have a default.
fn is_setting(provider: &ProviderSpec, key: &str) -> bool {
    provider.object.keys.iter().any(|known| known.name == key && key != "tools") && AGENT.key(key).is_none()
        || key == "model"
}

/// The user-wide file among the parts of a file, where there is one.
pub fn user_agents_of(file: &SourceFile) -> Option<SourceFile> {
    file.parts().find(|part| is_user_agents(part.name()))
}
