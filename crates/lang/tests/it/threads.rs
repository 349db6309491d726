//! Templates, expressions, documents, scopes and values are shared between threads without locks.
#![expect(clippy::unwrap_used, reason = "what does not evaluate fails the test")]
#![expect(clippy::disallowed_methods, reason = "threads are what is tested")]

use std::sync::Arc;
use std::thread;

use threadline_lang::{
    Document, Error, Expression, Limits, NoWorld, Scope, Session, Syntax, Template, Value, data,
};

const fn is_shared<T: Send + Sync>() {}

const _: () = {
    is_shared::<Value>();
    is_shared::<Scope>();
    is_shared::<Template>();
    is_shared::<Expression>();
    is_shared::<Document>();
    is_shared::<Error>();
};

/// A scope whose objects have their keys in another order for each `turn`, and a value that tells it.
fn scope(turn: usize) -> Scope {
    let mut keys = ["a", "b", "c", "d", "e"];
    keys.rotate_left(turn % 5);
    let entries: Vec<String> = keys.iter().map(|key| format!("\"{key}\": \"{key}{turn}\"")).collect();
    let json = format!("{{\"x\": {{{}}}, \"n\": {turn}}}", entries.join(", "));
    let names = data::json::read_value(&json, &Limits::DEFAULT).unwrap();
    Scope::new().with_values("data", names.as_object().unwrap().clone())
}

/// A path remembers where it found a key last. Threads that evaluate one template against objects of many shapes, new
/// ones all the time, must never be led to another key by that.
#[test]
fn one_template_in_many_threads_reads_its_own_scope() {
    let template = Arc::new(Template::parse("${x.a} ${x.c} ${x.e} ${n}", &Syntax::DEFAULT).unwrap());
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let template = Arc::clone(&template);
            thread::spawn(move || {
                for round in 0..2_000 {
                    let turn = worker * 2_000 + round;
                    let mut text = String::new();
                    template.text(&scope(turn), &mut Session::new(&mut NoWorld), &mut text).unwrap();
                    assert_eq!(text, format!("a{turn} c{turn} e{turn} {turn}"));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
}
