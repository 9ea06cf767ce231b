//! How much of two registries is compared with one question. An application may have any number of
//! instances, but a question has to be read and answered at once, within the bounds of the side that is
//! asked. So a question is filled up to a size, an application that is too large is divided by ranges of
//! instance ids, and both sides look at what lies in the range only.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::holds;
use crate::registry::{Application, Registry};
use crate::types::{AppName, InstanceId};

/// Bytes of a question at first, as estimated here.
pub const QUESTION_BYTES: usize = 2 << 20;
/// Bytes of a question that are not fallen short of, whatever the other side says.
pub const QUESTION_BYTES_MIN: usize = 1 << 10;
/// What an instance takes in a question beside its id, bytes, at most.
const LISTED_BYTES: usize = 220;
/// What an instance that is gone takes beside its id, bytes, at most.
const GONE_BYTES: usize = 120;
/// What an application takes beside its name and the ends of the range, bytes, at most.
const APP_BYTES: usize = 90;
/// What a hold takes beside its names, bytes, at most.
const HOLD_BYTES: usize = 150;

/// Ids behind one and up to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// From the beginning if there is none.
    #[serde(default)]
    pub after: Option<String>,
    /// To the end if there is none.
    #[serde(default)]
    pub upto: Option<String>,
}

impl Range {
    pub fn has(&self, id: &str) -> bool {
        self.after.as_deref().is_none_or(|after| id > after)
            && self.upto.as_deref().is_none_or(|upto| id <= upto)
    }
}

/// What is compared of one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    pub app: String,
    pub range: Range,
}

impl Portion {
    /// All of an application.
    pub fn whole(app: &str) -> Self {
        Self {
            app: app.to_owned(),
            range: Range::default(),
        }
    }

    /// What lies behind an instance of some application, if anything does.
    pub fn behind(&self, (app, id): (&str, &str)) -> Option<Self> {
        let mut rest = self.clone();
        if self.app.as_str() < app {
            return None;
        }
        if self.app == app && self.range.after.as_deref().is_none_or(|after| after < id) {
            rest.range.after = Some(id.to_owned());
        }
        let is_empty =
            matches!(&rest.range, Range { after: Some(after), upto: Some(upto) } if after >= upto);
        (!is_empty).then_some(rest)
    }
}

/// Takes from the front of `rest` what makes a question of `bytes` at most, but something in any case.
pub fn next_question(
    registry: &Registry,
    rest: &mut VecDeque<Portion>,
    bytes: usize,
) -> Vec<Portion> {
    let mut asked: Vec<Portion> = Vec::new();
    let mut left = bytes;
    while let Some(mut portion) = rest.pop_front() {
        // Two ranges of one application do not go into one question.
        if asked.iter().any(|other| other.app == portion.app) {
            rest.push_front(portion);
            break;
        }
        let fit = fit(registry, &portion, left, asked.is_empty());
        match fit.last {
            None => {
                left = left.saturating_sub(fit.size);
                asked.push(portion);
            }
            Some(_) if fit.count == 0 => {
                rest.push_front(portion);
                break;
            }
            Some(last) => {
                let mut behind = portion.clone();
                behind.range.after = Some(last.clone());
                rest.push_front(behind);
                portion.range.upto = Some(last);
                asked.push(portion);
                break;
            }
        }
    }
    asked
}

/// How much of a portion fits into what is left.
struct Fit {
    size: usize,
    /// Instances that fit, those that are gone among them.
    count: usize,
    /// The last one of them, unless all of it fits.
    last: Option<String>,
}

/// `is_first`: if nothing fits, one instance is taken all the same.
fn fit(registry: &Registry, portion: &Portion, left: usize, is_first: bool) -> Fit {
    let ends = [&portion.range.after, &portion.range.upto];
    let ends = ends.into_iter().flatten().map(|end| text_bytes(end));
    let mut fit = Fit {
        size: APP_BYTES + text_bytes(&portion.app) + ends.sum::<usize>(),
        count: 0,
        last: None,
    };
    if portion.app == holds::NAME {
        let size = |(app, id, _): (&AppName, &InstanceId, _)| {
            HOLD_BYTES + text_bytes(app.as_str()) + text_bytes(id.as_str())
        };
        fit.size += registry.holds().map(size).sum::<usize>();
        // They are compared whole.
        fit.last = (fit.size > left && !is_first).then(String::new);
        return fit;
    }
    let mut last = "";
    for (id, size) in sizes(registry, portion) {
        let is_too_much = fit.size + size > left && !(is_first && fit.count == 0);
        if is_too_much {
            fit.last = Some(last.to_owned());
            return fit;
        }
        fit.size += size;
        fit.count += 1;
        last = id;
    }
    if fit.size > left && !is_first {
        fit.last = Some(String::new());
    }
    fit
}

/// The ids of a portion in their order, and what each takes in a question.
fn sizes<'a>(
    registry: &'a Registry,
    portion: &'a Portion,
) -> impl Iterator<Item = (&'a str, usize)> {
    let range = &portion.range;
    let leases = registry.app(&portion.app).into_iter();
    let mut leases = leases
        .flat_map(Application::ids)
        .map(InstanceId::as_str)
        .filter(|id| range.has(id))
        .map(|id| (id, LISTED_BYTES + text_bytes(id)))
        .peekable();
    let mut gone = registry
        .tombstones_of(&portion.app)
        .map(|(id, _)| id.as_str())
        .filter(|id| range.has(id))
        .map(|id| (id, GONE_BYTES + text_bytes(id)))
        .peekable();
    std::iter::from_fn(move || match (leases.peek(), gone.peek()) {
        (Some((lease, _)), Some((stone, _))) if stone < lease => gone.next(),
        (None, _) => gone.next(),
        (Some(_), _) => leases.next(),
    })
}

/// A text in JSON.
fn text_bytes(text: &str) -> usize {
    let size = |byte: u8| match byte {
        0..=0x1f => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    text.bytes().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::rules::Rules;
    use crate::registry::tests::{Scene, cancel, instance};
    use crate::replication::reconcile::Comparison;

    fn scene(apps: &[(&str, usize)]) -> Scene {
        let mut scene = Scene::new(&Rules::default());
        for (app, count) in apps {
            for id in 0..*count {
                let id = format!("{id:03}\u{1}\"");
                scene.register(instance(app, &id));
                if id.starts_with("00") {
                    scene.client(&cancel(app, &id));
                }
            }
        }
        scene
    }

    #[test]
    fn questions_keep_to_their_size_and_go_through_everything_once() {
        let apps = [("A", 100), ("B", 3), ("C", 0), ("D", 40), ("E", 1)];
        let scene = scene(&apps);
        for bytes in [1, 1024, 5000, 20_000, 1 << 20] {
            let mut rest: VecDeque<Portion> =
                apps.iter().map(|(app, _)| Portion::whole(app)).collect();
            let (mut listed, mut gone, mut questions) = (Vec::new(), 0, 0);
            while !rest.is_empty() {
                let asked = next_question(&scene.registry, &mut rest, bytes);
                assert!(!asked.is_empty());
                questions += 1;
                let question = Comparison::of(&scene.registry, &asked, scene.now);
                let size = serde_json::to_vec(&question).expect("a question").len();
                assert!(bytes < 1024 || size <= bytes, "{size} of {bytes}");
                for (app, view) in question.apps {
                    listed.extend(view.instances.into_iter().map(|one| (app.clone(), one.id)));
                    gone += view.gone.len();
                }
            }
            let all = scene.registry.leases().map(|lease| {
                let instance = lease.instance();
                (instance.app.to_string(), instance.id().to_string())
            });
            assert_eq!(listed, all.collect::<Vec<_>>(), "{bytes}");
            assert_eq!(gone, 10 + 3 + 10 + 1);
            assert_eq!(questions == 1, bytes == 1 << 20, "{bytes}: {questions}");
        }
    }

    #[test]
    fn what_lies_behind_an_instance_is_what_is_left_of_a_portion() {
        let portion = |after: Option<&str>, upto: Option<&str>| Portion {
            app: "B".into(),
            range: Range {
                after: after.map(Into::into),
                upto: upto.map(Into::into),
            },
        };
        let all = portion(None, None);
        assert_eq!(all.behind(("A", "7")), Some(all.clone()));
        assert_eq!(all.behind(("C", "0")), None);
        assert_eq!(all.behind(("B", "7")), Some(portion(Some("7"), None)));
        let some = portion(Some("3"), Some("7"));
        assert_eq!(some.behind(("B", "5")), Some(portion(Some("5"), Some("7"))));
        assert_eq!(some.behind(("B", "7")), None);
        assert_eq!(some.behind(("B", "1")), Some(some.clone()));
    }
}
