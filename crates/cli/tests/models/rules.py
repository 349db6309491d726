"""The scripts of the stand-ins: reading a list of rules, and choosing the rule of a call.

It knows no protocol: a call is a table of facts, an answer is a table that each protocol renders. An unknown
key is an error, so that a misspelt rule cannot pass for one that asks nothing.
"""

import json
import re
import threading


class ScriptError(Exception):
    """A script that cannot be used; the text says where and why."""


def load(path, settings, answer_keys):
    """The settings and rules in a file: a list of rules, or an object with settings and `rules`."""
    try:
        with open(path, encoding="utf-8") as file:
            script = json.load(file)
    except (OSError, ValueError) as error:
        raise ScriptError(f"{path}: {error}") from error
    if isinstance(script, list):
        script = {"rules": script}
    known(script, {"rules", *settings}, path)
    if not isinstance(script.get("rules"), list):
        raise ScriptError(f"{path}: `rules` must be a list")
    rules = [Rule(rule, f"{path}: rules[{index}]", answer_keys) for index, rule in enumerate(script["rules"])]
    given = {name: script.get(name, default) for name, default in settings.items()}
    return given, Rules(rules)


def known(table, names, where):
    """Refuses a table with a key that has no meaning there."""
    if not isinstance(table, dict):
        raise ScriptError(f"{where} must be an object")
    for key in table:
        if key not in names:
            raise ScriptError(f"{where}: unknown key `{key}`; known: {', '.join(sorted(names))}")


class Rule:
    """One rule: which calls it answers, how often, and with what."""

    CONDITIONS = {
        "api",
        "call",
        "model",
        "stream",
        "system",
        "system_matches",
        "tool_result",
        "user",
        "user_matches",
        "resume",
    }

    def __init__(self, rule, where, answer_keys):
        known(rule, {"when", "times", "answer", "note"}, where)
        self.when = rule.get("when", {})
        known(self.when, self.CONDITIONS, f"{where}.when")
        self.patterns = {}
        for name in ("user_matches", "system_matches"):
            if name in self.when:
                try:
                    self.patterns[name] = re.compile(self.when[name], re.DOTALL)
                except re.error as error:
                    raise ScriptError(f"{where}.when.{name}: {error}") from error
        self.times = rule.get("times")
        if self.times is not None and (not isinstance(self.times, int) or self.times < 1):
            raise ScriptError(f"{where}.times must be a positive number")
        if "answer" not in rule:
            raise ScriptError(f"{where} has no `answer`")
        self.answer = rule["answer"]
        known(self.answer, answer_keys, f"{where}.answer")
        self.where = where
        self.used = 0

    def matches(self, call):
        if self.times is not None and self.used >= self.times:
            return False
        return all(self.holds(name, wanted, call) for name, wanted in self.when.items())

    def holds(self, name, wanted, call):
        if name in ("user", "system"):
            return wanted in call[name]
        if name in ("user_matches", "system_matches"):
            return self.patterns[name].search(call[name.removesuffix("_matches")]) is not None
        if name == "tool_result":
            results = call["tool_results"]
            return (
                any(wanted in text for text in results)
                if isinstance(wanted, str)
                else bool(results) == wanted
            )
        if name == "call":
            return call["call"] in wanted if isinstance(wanted, list) else call["call"] == wanted
        if name == "resume" and isinstance(wanted, bool):
            return (call["resume"] is not None) == wanted
        return call.get(name) == wanted


class Rules:
    """The rules of a script in order, with a count of the calls."""

    def __init__(self, rules):
        self.rules = rules
        self.calls = 0
        self.lock = threading.Lock()

    def choose(self, call):
        """The first rule that matches and its index, or nothing. It counts as used from now on."""
        with self.lock:
            self.calls += 1
            call = {**call, "call": self.calls}
            for index, rule in enumerate(self.rules):
                if rule.matches(call):
                    rule.used += 1
                    return index, rule
        return None, None
