//! Who is let in. Every request passes here before its route is looked for, so that no route can forget it.
//!
//! - `Host` must be a name of this server: a page of another site whose name was pointed at this machine (DNS rebinding)
//!   has its own name there.
//! - `Origin`, where a browser sends it, must be that of this server, and `Sec-Fetch-Site` must not say another site. Other
//!   ports of this machine are other origins, though the same site.
//! - The token must be known: in `Authorization: Bearer`, or as the cookie that `open` gives to a browser.
//!
//! Cookies of a machine are sent to all its ports, so that any other program that listens here could read one. Ours is
//! bound to a first segment of paths that follows from the token and that nobody can guess: browsers send it nowhere else.
//! It is `HttpOnly` and `SameSite=Strict`, and what changes something must also carry our `Origin`.
//!
//! Nothing here reads a run.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, Uri};

use crate::public_url::PublicUrl;
use crate::token::{Token, is_same};

/// The name of the cookie.
const COOKIE_NAME: &str = "threadline";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The target is not a path, or the head has one of its fields twice.
    Malformed,
    /// It is meant for another host.
    WrongHost,
    /// Another site has sent it.
    ForeignOrigin,
    /// It does not know the token. Pages may be asked for it.
    Unknown {
        /// Whether it knows the first segment of pages.
        knows_segment: bool,
    },
}

/// What the gate finds out about a request that it lets in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted<'u> {
    /// The path behind what all paths begin with, with its slash.
    pub(crate) path: &'u str,
}

/// Decides who is let in.
pub(crate) struct Gate {
    token: Token,
    cookie: String,
    segment: String,
    /// The names of this server, each with the origin of its pages.
    hosts: Vec<(String, String)>,
    public: Option<PublicUrl>,
}

impl Gate {
    /// The gate of a server that listens at these hosts, such as `127.0.0.1:7117`.
    pub(crate) fn new(token: &Token, listened: &[String], public: Option<PublicUrl>) -> Self {
        let mut hosts: Vec<(String, String)> =
            listened.iter().map(|host| (host.clone(), format!("http://{host}"))).collect();
        hosts.extend(public.iter().map(|public| (public.authority.clone(), public.origin())));
        Self {
            cookie: token.cookie(),
            segment: format!("/{}", token.segment()),
            token: token.clone(),
            hosts,
            public,
        }
    }

    /// What the paths of all pages begin with, without a slash at its end.
    pub(crate) fn base(&self) -> String {
        let path = self.public.as_ref().map_or("", |public| public.path.as_str());
        format!("{path}{}", self.segment)
    }

    /// The cookie of a browser that knows the token, as a header field.
    pub(crate) fn set_cookie(&self) -> String {
        let secure = if self.public.as_ref().is_some_and(PublicUrl::is_secure) { "; Secure" } else { "" };
        let (value, path) = (&self.cookie, self.base());
        format!("{COOKIE_NAME}={value}; Path={path}/; HttpOnly; SameSite=Strict{secure}")
    }

    /// Whether a text is the token.
    pub(crate) fn knows(&self, token: &str) -> bool {
        self.token.is(token)
    }

    /// Looks at the head of a request. With `is_entry` the route itself looks whether the token is right.
    pub(crate) fn admit<'u>(
        &self,
        method: &Method,
        uri: &'u Uri,
        headers: &HeaderMap,
        is_entry: impl FnOnce(&str) -> bool,
    ) -> Result<Admitted<'u>, Refusal> {
        if uri.authority().is_some() || !uri.path().starts_with('/') {
            return Err(Refusal::Malformed);
        }
        let host = only(headers, &HOST)?.ok_or(Refusal::WrongHost)?;
        let known = self.hosts.iter().find(|(known, _)| known.eq_ignore_ascii_case(host));
        let Some((_, own_origin)) = known else { return Err(Refusal::WrongHost) };
        let (path, knows_segment) = self.strip(uri.path());
        let is_entry = knows_segment && is_entry(path);
        let origin = only(headers, &ORIGIN)?;
        if origin.is_some_and(|origin| !origin.eq_ignore_ascii_case(own_origin)) {
            return Err(Refusal::ForeignOrigin);
        }
        // Whoever follows the address that was printed may come from anywhere; the token is in it.
        let site = only(headers, &SEC_FETCH_SITE)?.unwrap_or("none");
        let is_ours = matches!(site, "same-origin" | "none");
        if !(is_ours || is_entry && method == Method::GET) {
            return Err(Refusal::ForeignOrigin);
        }
        if is_entry || self.has_bearer(headers)? {
            return Ok(Admitted { path });
        }
        if !knows_segment || !self.has_cookie(headers) {
            return Err(Refusal::Unknown { knows_segment });
        }
        // A browser says where from it sends what changes something.
        if method != Method::GET && origin.is_none() {
            return Err(Refusal::ForeignOrigin);
        }
        Ok(Admitted { path })
    }

    /// The path behind what all paths begin with, and whether the segment of the token was there. A proxy may have taken
    /// the path of the public address away.
    fn strip<'p>(&self, path: &'p str) -> (&'p str, bool) {
        let below = |path: &'p str, part: &str| {
            path.strip_prefix(part).filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let public = self.public.as_ref().map_or("", |public| public.path.as_str());
        let path = below(path, public).unwrap_or(path);
        match below(path, &self.segment) {
            Some("") => ("/", true),
            Some(rest) => (rest, true),
            None => (path, false),
        }
    }

    fn has_bearer(&self, headers: &HeaderMap) -> Result<bool, Refusal> {
        let Some(given) = only(headers, &AUTHORIZATION)? else { return Ok(false) };
        let token = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        Ok(token.is_some_and(|(_, token)| self.token.is(token.trim())))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
        let pairs = cookies.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
        // Others may have set one of the same name: each is looked at.
        pairs.filter(|(name, value)| *name == COOKIE_NAME && is_same(&self.cookie, value)).count() > 0
    }
}

/// A field of the head that may be there once.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refusal> {
    let mut found = headers.get_all(name).iter();
    let (first, second) = (found.next(), found.next());
    if second.is_some() {
        return Err(Refusal::Malformed);
    }
    first.map(|value| value.to_str().map_err(|_| Refusal::Malformed)).transpose()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const HOST_NAME: &str = "127.0.0.1:7117";

    fn gate() -> Gate {
        Gate::new(&Token::new(), &[HOST_NAME.to_owned(), "localhost:7117".to_owned()], None)
    }

    fn decide(gate: &Gate, method: &Method, path: &str, fields: &[(&str, &str)]) -> Result<String, Refusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        let uri: Uri = path.parse().expect("a target");
        let admitted = gate.admit(method, &uri, &headers, |path| path == "/open")?;
        Ok(admitted.path.to_owned())
    }

    #[test]
    fn only_who_knows_the_token_is_let_in() {
        let gate = gate();
        let bearer = format!("Bearer {}", gate.token.reveal());
        let get = |path: &str, fields: &[(&str, &str)]| decide(&gate, &Method::GET, path, fields);
        let host = ("host", HOST_NAME);
        assert_eq!(get("/api/projects", &[host]), Err(Refusal::Unknown { knows_segment: false }));
        assert_eq!(get("/api/projects", &[host, ("authorization", &bearer)]), Ok("/api/projects".into()));
        assert_eq!(
            get("/api/projects", &[host, ("authorization", "Bearer 1234")]),
            Err(Refusal::Unknown { knows_segment: false })
        );
        let cookie = format!("a=b; threadline=0; threadline={}", gate.cookie);
        // The cookie counts only below the segment that browsers send it to.
        assert_eq!(get("/x", &[host, ("cookie", &cookie)]), Err(Refusal::Unknown { knows_segment: false }));
        let below = format!("{}/x", gate.segment);
        assert_eq!(get(&below, &[host, ("cookie", &cookie)]), Ok("/x".into()));
        assert_eq!(get(&gate.segment, &[host, ("cookie", &cookie)]), Ok("/".into()));
        assert_eq!(get(&below, &[host]), Err(Refusal::Unknown { knows_segment: true }));
    }

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let gate = gate();
        let bearer = format!("Bearer {}", gate.token.reveal());
        let known = ("authorization", bearer.as_str());
        let get = |fields: &[(&str, &str)]| decide(&gate, &Method::GET, "/x", fields);
        assert_eq!(get(&[known]), Err(Refusal::WrongHost));
        for host in ["evil.example:7117", "127.0.0.1", "127.0.0.1:7118", "127.0.0.1:7117.evil.example", ""] {
            assert_eq!(get(&[known, ("host", host)]), Err(Refusal::WrongHost), "{host}");
        }
        let host = ("host", HOST_NAME);
        assert_eq!(get(&[known, host, host]), Err(Refusal::Malformed));
        for origin in ["null", "http://evil.example", "https://127.0.0.1:7117", "http://localhost:7117", ""] {
            assert_eq!(get(&[known, host, ("origin", origin)]), Err(Refusal::ForeignOrigin), "{origin}");
        }
        assert_eq!(get(&[known, host, ("origin", "http://127.0.0.1:7117")]), Ok("/x".into()));
        for site in ["cross-site", "same-site", "unknown"] {
            assert_eq!(get(&[known, host, ("sec-fetch-site", site)]), Err(Refusal::ForeignOrigin), "{site}");
        }
    }

    #[test]
    fn a_browser_that_changes_something_says_where_from() {
        let gate = gate();
        let (cookie, path) = (format!("threadline={}", gate.cookie), format!("{}/x", gate.segment));
        let (host, cookie) = (("host", HOST_NAME), ("cookie", cookie.as_str()));
        let post = |fields: &[(&str, &str)]| decide(&gate, &Method::POST, &path, fields);
        assert_eq!(post(&[host, cookie]), Err(Refusal::ForeignOrigin));
        assert_eq!(post(&[host, cookie, ("origin", "http://127.0.0.1:7117")]), Ok("/x".into()));
    }

    #[test]
    fn a_public_address_has_its_own_host_origin_and_path() {
        let public = PublicUrl::parse("https://ci.example.org/line/").expect("an address");
        let gate = Gate::new(&Token::new(), &[HOST_NAME.to_owned()], Some(public));
        let (cookie, segment) = (format!("threadline={}", gate.cookie), &gate.segment);
        let cookie = ("cookie", cookie.as_str());
        let host = ("host", "ci.example.org");
        for path in [format!("/line{segment}/x"), format!("{segment}/x")] {
            let get = |fields: &[(&str, &str)]| decide(&gate, &Method::GET, &path, fields);
            assert_eq!(get(&[host, cookie, ("origin", "https://ci.example.org")]), Ok("/x".into()));
            assert_eq!(
                get(&[host, cookie, ("origin", "http://ci.example.org")]),
                Err(Refusal::ForeignOrigin)
            );
        }
        assert!(
            gate.set_cookie().contains(&format!("Path=/line{segment}/; HttpOnly; SameSite=Strict; Secure"))
        );
    }
}
