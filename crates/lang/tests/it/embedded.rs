//! References inside of a text of another language: where they end, how they are bound, what is refused.
#![expect(clippy::unwrap_used, reason = "what does not parse fails the test")]

use ecow::EcoString;
use threadline_lang::{
    Binding, Embedded, Limits, NoWorld, Scope, Session, Syntax, TextPiece, Undefined, data, pieces,
};

fn scope() -> Scope {
    let names = data::json::read_value(r#"{"x": "a", "xs": ["a", "b"], "o": {}}"#, &Limits::DEFAULT).unwrap();
    Scope::new().with_values("data", names.as_object().unwrap().clone())
}

#[test]
fn the_end_and_the_binding() {
    for (text, reference, binding) in [
        ("echo ${x} }", "${x}", None),
        ("echo ${x | words}.", "${x | words}", Some(Binding::Words)),
        ("echo ${x|as_file }", "${x|as_file }", Some(Binding::AsFile)),
        ("echo ${ x | upper | raw }'", "${ x | upper | raw }", Some(Binding::Raw)),
        ("echo ${= xs + [x] | words } ${x}", "${= xs + [x] | words }", Some(Binding::Words)),
        ("echo ${x:-a}b}", "${x:-a}", None),
        ("'${= x | default(\"}\") }'", "${= x | default(\"}\") }", None),
    ] {
        let source = EcoString::from(text);
        let embedded = Embedded::parse(&source, text.find("${").unwrap(), &Syntax::DEFAULT);
        let embedded = embedded.unwrap_or_else(|(error, _)| panic!("{text}: {error:?}"));
        assert_eq!((embedded.text(), embedded.binding()), (reference, binding), "{text}");
        assert_eq!(&text[embedded.span().range()], reference);
        for read in embedded.references() {
            assert_eq!(&text[read.span.range()], read.path.as_str(), "{text}");
        }
    }
}

#[test]
fn a_binding_stands_only_last() {
    for (text, end) in [
        ("${x | words | upper} b", 20),
        ("${x | words:-a} b", 15),
        ("${= (x | words) } b", 17),
        ("${x:-${x | raw}} b", 16),
        ("${= '${x | raw}' } b", 18),
        ("${= xs | each(\"x | raw\") } b", 26),
        ("${x | words", 11),
        ("${x | wrods} b", 12),
    ] {
        let (error, behind) = Embedded::parse(&text.into(), 0, &Syntax::DEFAULT).unwrap_err();
        assert_eq!(behind, end, "{text}: {error:?}");
        assert!(text.get(error.span().range()).is_some());
    }
}

/// A command with a hole in it is not the command that its author wrote: no policy leaves one.
#[test]
fn what_is_missing_is_an_error() {
    for policy in [Undefined::Error, Undefined::Keep, Undefined::Empty] {
        let embedded = Embedded::parse(&"rm ${o.x}".into(), 3, &Syntax::DEFAULT).unwrap();
        let mut world = NoWorld;
        let mut session = Session::new(&mut world).undefined(policy);
        assert!(embedded.value(&scope(), &mut session).unwrap_err().is_missing(), "{policy:?}");
    }
}

#[test]
fn a_text_is_taken_apart() {
    for (text, expected) in [
        ("", ""),
        ("a", "[a]"),
        ("${x}", "<${x}>"),
        ("a${x | words}b", "[a]<${x | words}>[b]"),
        ("$${x} $$${x} $ $$", "[${x} $]<${x}>[ $ $$]"),
        ("${x}${xs}", "<${x}><${xs}>"),
    ] {
        let shown: String = pieces(&text.into(), &Syntax::DEFAULT)
            .unwrap()
            .iter()
            .map(|piece| match piece {
                TextPiece::Text(text) => ["[", text, "]"].concat(),
                TextPiece::Reference(reference) => ["<", reference.text(), ">"].concat(),
            })
            .collect();
        assert_eq!(shown, expected, "{text}");
    }
    let errors = pieces(&"${x | nope} ${} ${x".into(), &Syntax::DEFAULT).unwrap_err();
    assert_eq!(errors.len(), 3, "{errors:?}");
}
