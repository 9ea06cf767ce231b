//! The whole URL map: from a path to what it means, without touching anything. Kept apart from the
//! handlers, so that every odd path can be tested as text (`protocol.md` 1.1).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// What a path stands for. Application names are upper case, ids as they were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    Apps,
    Delta,
    App(Cow<'a, str>),
    Instance {
        app: Cow<'a, str>,
        id: Cow<'a, str>,
    },
    InstanceStatus {
        app: Cow<'a, str>,
        id: Cow<'a, str>,
    },
    InstanceMetadata {
        app: Cow<'a, str>,
        id: Cow<'a, str>,
    },
    InstanceById(Cow<'a, str>),
    Vip(Cow<'a, str>),
    SecureVip(Cow<'a, str>),
    Batch,
    /// Between nodes of our own kind.
    Between(Between),
    AsgStatus,
    ServerStatus,
    StatusOverrides,
    /// The dashboard and its second page.
    Home,
    LastN,
    /// `/actuator` and below: the rest of the path.
    Actuator(String),
    /// What only this server answers.
    Own(Own<'a>),
    /// `/metrics`, in Prometheus' text format.
    Metrics,
    NotFound,
}

/// What nodes of our own kind ask of each other (`replication::inbound`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    Renewals,
    Digest,
    Compare,
}

/// Questions and operations beyond the protocol, outside its prefixes (design 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own<'a> {
    /// Of everything, of an application, or of one instance.
    History {
        app: Option<Cow<'a, str>>,
        id: Option<Cow<'a, str>>,
    },
    /// The registry as of a moment.
    Registry,
    RegistryDiff,
    Watch,
    Changes,
    Explain {
        app: Cow<'a, str>,
        id: Cow<'a, str>,
    },
    Drain {
        app: Cow<'a, str>,
        id: Cow<'a, str>,
    },
    Quarantine {
        app: Cow<'a, str>,
        id: Cow<'a, str>,
    },
    /// All overrides of an application at once.
    Overrides,
    /// The state of this node.
    Node,
    OpenApi,
}

/// How paths are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRules {
    /// `server.servlet.context-path`, without a slash at its end.
    pub context_path: String,
    /// Read doubled slashes as one, serve the protocol without `/eureka` too (`/v2/apps`, `/apps`),
    /// and take `%2F` as part of a name, which the original's container refuses (`eurekad.paths`).
    pub is_lenient: bool,
    /// Where the dashboard is; `None` if it is off.
    pub dashboard: Option<String>,
    /// Where the actuator is, such as `/actuator`.
    pub actuator: String,
    /// `/serverinfo/statusoverrides` is there.
    pub serverinfo: bool,
}

/// A path that is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPath;

/// Methods of a route, as `Allow` names them. HEAD goes with GET and is named by OPTIONS only.
pub fn allowed(route: &Route<'_>) -> &'static [&'static str] {
    match route {
        Route::App(_) => &["POST", "GET", "OPTIONS"],
        Route::Instance { .. } => &["DELETE", "GET", "OPTIONS", "PUT"],
        Route::InstanceStatus { .. } => &["DELETE", "OPTIONS", "PUT"],
        Route::InstanceMetadata { .. } | Route::AsgStatus => &["OPTIONS", "PUT"],
        Route::Batch | Route::Between(_) => &["POST", "OPTIONS"],
        Route::Apps
        | Route::Delta
        | Route::InstanceById(_)
        | Route::Vip(_)
        | Route::SecureVip(_)
        | Route::ServerStatus
        | Route::StatusOverrides => &["GET", "OPTIONS"],
        Route::Home | Route::LastN | Route::Actuator(_) | Route::Metrics => &["GET", "HEAD"],
        Route::Own(Own::Drain { .. } | Own::Quarantine { .. }) => {
            &["GET", "HEAD", "POST", "DELETE", "OPTIONS"]
        }
        Route::Own(Own::Overrides) => &["GET", "HEAD", "DELETE", "OPTIONS"],
        Route::Own(_) => &["GET", "HEAD", "OPTIONS"],
        Route::NotFound => &[],
    }
}

/// Reads a path.
///
/// # Errors
/// [`BadPath`]: an escape that is none, characters that a path must not have, or text that is not
/// UTF-8.
pub fn parse<'a>(path: &'a str, rules: &PathRules) -> Result<Route<'a>, BadPath> {
    check_characters(path, rules)?;
    let Some(rest) = path.strip_prefix(rules.context_path.as_str()) else {
        return Ok(Route::NotFound);
    };
    // Containers take any number of slashes in front.
    let rest = rest.trim_start_matches('/');
    if let Some(route) = page(path, rest, rules) {
        return Ok(route);
    }
    let raw: Vec<&str> = match segments(rest, rules.is_lenient) {
        Some(segments) => segments,
        None => return Ok(Route::NotFound),
    };
    let mut parts = Vec::with_capacity(raw.len());
    for segment in raw {
        parts.push(decode(segment)?);
    }
    Ok(match own(&mut parts) {
        Some(own) => Route::Own(own),
        None => resource(parts, rules),
    })
}

/// Questions and operations of our own; takes the parts only if they are one.
fn own<'a>(parts: &mut Vec<Cow<'a, str>>) -> Option<Own<'a>> {
    let words: Vec<&str> = parts.iter().map(|part| &**part).collect();
    let found = match *words.as_slice() {
        ["history"] => Own::History {
            app: None,
            id: None,
        },
        ["registry"] => Own::Registry,
        ["registry", "diff"] => Own::RegistryDiff,
        ["watch"] => Own::Watch,
        ["changes"] => Own::Changes,
        ["overrides"] => Own::Overrides,
        ["node"] => Own::Node,
        ["openapi.json"] => Own::OpenApi,
        ["history", "apps", _] => Own::History {
            app: parts.pop().map(upper),
            id: None,
        },
        [
            kind @ ("history" | "explain" | "drain" | "quarantine"),
            "apps",
            _,
            _,
        ] => {
            let kind = kind.to_owned();
            let id = parts.pop()?;
            let app = upper(parts.pop()?);
            match kind.as_str() {
                "history" => Own::History {
                    app: Some(app),
                    id: Some(id),
                },
                "explain" => Own::Explain { app, id },
                "drain" => Own::Drain { app, id },
                _ => Own::Quarantine { app, id },
            }
        }
        _ => return None,
    };
    Some(found)
}

/// What only this server answers, by the first word of the path: the paths that there are.
const OWN: [(&str, &str); 11] = [
    (
        "history",
        "/history, /history/apps/APP, /history/apps/APP/ID",
    ),
    ("registry", "/registry, /registry/diff"),
    ("watch", "/watch"),
    ("changes", "/changes"),
    ("explain", "/explain/apps/APP/ID"),
    ("drain", "/drain/apps/APP/ID"),
    ("quarantine", "/quarantine/apps/APP/ID"),
    ("overrides", "/overrides"),
    ("node", "/node"),
    ("openapi.json", "/openapi.json"),
    ("metrics", "/metrics"),
];

/// Which paths there are of what a path, even one that cannot be read, is meant for; `None` if that is not
/// for what only this server answers.
pub fn own_paths(path: &str, rules: &PathRules) -> Option<&'static str> {
    let rest = path.strip_prefix(rules.context_path.as_str())?;
    let first = rest.trim_start_matches('/').split('/').next()?;
    OWN.into_iter()
        .find(|(word, _)| *word == first)
        .map(|(_, paths)| paths)
}

/// Dashboard and actuator: outside the protocol's own prefixes.
fn page(path: &str, rest: &str, rules: &PathRules) -> Option<Route<'static>> {
    let own = path
        .strip_prefix(rules.context_path.as_str())
        .unwrap_or(path);
    let own = if own.is_empty() { "/" } else { own };
    if let Some(dashboard) = &rules.dashboard {
        let bare = own
            .strip_suffix('/')
            .filter(|p| !p.is_empty())
            .unwrap_or(own);
        if own == dashboard || bare == dashboard {
            return Some(Route::Home);
        }
        let base = if dashboard == "/" {
            ""
        } else {
            dashboard.as_str()
        };
        if bare.strip_prefix(base) == Some("/lastn") {
            return Some(Route::LastN);
        }
    }
    if rest == "metrics" {
        return Some(Route::Metrics);
    }
    let actuator = rules.actuator.trim_start_matches('/');
    let below = rest.strip_prefix(actuator)?;
    (below.is_empty() || below.starts_with('/'))
        .then(|| Route::Actuator(below.trim_matches('/').to_owned()))
}

/// The segments, without what follows a `;` in each and without one slash at the end. `None` if
/// there is an empty one and slashes do not collapse.
fn segments(rest: &str, collapse: bool) -> Option<Vec<&str>> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let mut parts = Vec::new();
    for segment in rest.split('/') {
        if segment.is_empty() {
            if collapse {
                continue;
            }
            return None;
        }
        parts.push(segment.split(';').next().unwrap_or(segment));
    }
    Some(parts)
}

fn resource<'a>(parts: Vec<Cow<'a, str>>, rules: &PathRules) -> Route<'a> {
    let mut parts = parts.into_iter().peekable();
    let has_prefix = parts.next_if(|p| p == "eureka").is_some();
    if !has_prefix && !rules.is_lenient {
        return Route::NotFound;
    }
    // The original's filter takes anything that begins with v2 for the version.
    let has_version = parts.next_if(|p| p.starts_with("v2")).is_some();
    let parts: Vec<Cow<'a, str>> = parts.collect();
    let mut parts = parts.into_iter();
    let Some(kind) = parts.next() else {
        return Route::NotFound;
    };
    let rest = [parts.next(), parts.next(), parts.next(), parts.next()];
    match (&*kind, rest) {
        ("apps", [None, ..]) => Route::Apps,
        ("apps", [Some(name), None, ..]) if name == "delta" => Route::Delta,
        ("apps", [Some(app), None, ..]) => Route::App(upper(app)),
        ("apps", [Some(app), Some(id), None, _]) => Route::Instance {
            app: upper(app),
            id,
        },
        ("apps", [Some(app), Some(id), Some(what), None]) => match &*what {
            "status" => Route::InstanceStatus {
                app: upper(app),
                id,
            },
            "metadata" => Route::InstanceMetadata {
                app: upper(app),
                id,
            },
            _ => Route::NotFound,
        },
        ("instances", [Some(id), None, ..]) => Route::InstanceById(id),
        ("vips", [Some(address), None, ..]) => Route::Vip(address),
        ("svips", [Some(address), None, ..]) => Route::SecureVip(address),
        ("peerreplication", [Some(what), None, ..]) if what == "batch" => Route::Batch,
        ("eurekad", [Some(what), None, ..]) => match &*what {
            "renewals" => Route::Between(Between::Renewals),
            "digest" => Route::Between(Between::Digest),
            "compare" => Route::Between(Between::Compare),
            _ => Route::NotFound,
        },
        ("asg", [Some(_), Some(what), None, _]) if what == "status" => Route::AsgStatus,
        ("status", [None, ..]) => Route::ServerStatus,
        ("serverinfo", [Some(what), None, ..])
            if rules.serverinfo && !has_version && what == "statusoverrides" =>
        {
            Route::StatusOverrides
        }
        ("lastn", [None, ..]) if rules.is_lenient && rules.dashboard.is_some() => Route::LastN,
        _ => Route::NotFound,
    }
}

/// Upper case, whatever the locale; most names are already.
fn upper(name: Cow<'_, str>) -> Cow<'_, str> {
    if name.chars().any(|c| c.is_lowercase() || !c.is_ascii()) {
        Cow::Owned(name.to_uppercase())
    } else {
        name
    }
}

fn decode(segment: &str) -> Result<Cow<'_, str>, BadPath> {
    if !segment.contains('%') {
        return Ok(Cow::Borrowed(segment));
    }
    percent_decode_str(segment)
        .decode_utf8()
        .map_err(|_| BadPath)
}

/// What the original's container refuses: bad escapes, a few raw characters, and, in the exact
/// dialect, an escaped slash or backslash.
fn check_characters(path: &str, rules: &PathRules) -> Result<(), BadPath> {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let escape = bytes.get(at + 1..at + 3).ok_or(BadPath)?;
                if !escape.iter().all(u8::is_ascii_hexdigit) {
                    return Err(BadPath);
                }
                let is_slash =
                    escape.eq_ignore_ascii_case(b"2f") || escape.eq_ignore_ascii_case(b"5c");
                if is_slash && !rules.is_lenient || escape == b"00" {
                    return Err(BadPath);
                }
                at += 3;
            }
            b'|' | b'{' | b'}' | b'^' | b'`' | b'[' | b']' | b'"' | b'<' | b'>' | b'\\' => {
                return Err(BadPath);
            }
            _ => at += 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(exact: bool) -> PathRules {
        PathRules {
            context_path: String::new(),
            is_lenient: !exact,
            dashboard: Some("/".into()),
            actuator: "/actuator".into(),
            serverinfo: !exact,
        }
    }

    fn route(path: &str) -> Route<'_> {
        parse(path, &rules(false)).unwrap()
    }

    #[test]
    fn every_prefix_leads_to_the_same_resource() {
        for path in [
            "/eureka/apps",
            "/eureka/apps/",
            "/eureka/v2/apps",
            "/v2/apps",
            "/apps",
            "//eureka//apps/",
        ] {
            assert_eq!(route(path), Route::Apps, "{path}");
        }
        assert_eq!(route("/eureka/v1/apps"), Route::NotFound);
        assert_eq!(route("/eureka/Apps"), Route::NotFound);
    }

    #[test]
    fn names_are_decoded_and_applications_upper_case() {
        let expected = Route::Instance {
            app: "F O".into(),
            id: "i:1/x".into(),
        };
        assert_eq!(route("/eureka/apps/f%20o/i%3A1%2Fx"), expected);
        assert_eq!(route("/eureka/apps/delta"), Route::Delta);
        assert_eq!(route("/eureka/apps/DELTA"), Route::App("DELTA".into()));
        assert_eq!(
            route("/eureka/apps/A;x=1/i;y"),
            Route::Instance {
                app: "A".into(),
                id: "i".into()
            }
        );
    }

    #[test]
    fn the_exact_rules_refuse_what_the_container_refuses() {
        assert_eq!(parse("/eureka/apps/A/i%2Fx", &rules(true)), Err(BadPath));
        assert_eq!(parse("/eureka/apps/A/%zz", &rules(true)), Err(BadPath));
        assert_eq!(parse("/eureka/apps/A/%ff", &rules(true)), Err(BadPath));
        for path in [
            "/eureka//apps",
            "/v2/apps",
            "/apps",
            "/serverinfo/statusoverrides",
        ] {
            assert_eq!(
                parse(path, &rules(true)).unwrap(),
                Route::NotFound,
                "{path}"
            );
        }
    }

    #[test]
    fn a_context_path_comes_first() {
        let rules = PathRules {
            context_path: "/ctx".into(),
            ..rules(true)
        };
        assert_eq!(parse("/ctx/eureka/apps", &rules).unwrap(), Route::Apps);
        assert_eq!(parse("/eureka/apps", &rules).unwrap(), Route::NotFound);
        assert_eq!(parse("/ctx/", &rules).unwrap(), Route::Home);
    }

    #[test]
    fn questions_of_our_own_are_outside_the_protocols_prefixes() {
        assert_eq!(
            route("/history/apps/billing/i%2F1"),
            Route::Own(Own::History {
                app: Some("BILLING".into()),
                id: Some("i/1".into())
            })
        );
        assert_eq!(route("/registry/diff/"), Route::Own(Own::RegistryDiff));
        let explained = Own::Explain {
            app: "A".into(),
            id: "b".into(),
        };
        assert_eq!(route("/explain/apps/a/b"), Route::Own(explained));
        assert_eq!(route("/eureka/history"), Route::NotFound);
        assert_eq!(route("/history/apps"), Route::NotFound);
        assert_eq!(route("/drain/apps/a"), Route::NotFound);
        assert_eq!(
            parse("/watch", &rules(true)).unwrap(),
            Route::Own(Own::Watch)
        );
    }

    #[test]
    fn what_is_meant_for_us_is_known_even_if_it_cannot_be_read() {
        let context = PathRules {
            context_path: "/ctx".into(),
            ..rules(false)
        };
        let is_own = |path: &str, rules: &PathRules| own_paths(path, rules).is_some();
        assert!(is_own("/history/apps/%zz", &rules(false)));
        assert!(is_own("/ctx/drain/apps/A/%00", &context));
        assert!(!is_own("/history/apps/%zz", &context));
        assert!(!is_own("/eureka/apps/%zz", &rules(false)));
        assert!(!is_own("/", &rules(false)));
    }

    #[test]
    fn pages_have_their_own_places() {
        assert_eq!(route("/"), Route::Home);
        assert_eq!(route("/lastn"), Route::LastN);
        assert_eq!(
            route("/actuator/health/liveness"),
            Route::Actuator("health/liveness".into())
        );
        let moved = PathRules {
            dashboard: Some("/dash".into()),
            ..rules(true)
        };
        assert_eq!(parse("/dash", &moved).unwrap(), Route::Home);
        assert_eq!(parse("/dash/lastn", &moved).unwrap(), Route::LastN);
        assert_eq!(parse("/", &moved).unwrap(), Route::NotFound);
    }
}
