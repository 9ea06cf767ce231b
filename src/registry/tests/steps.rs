//! Random steps over few names, statuses and versions, so that they meet each other often.

use proptest::prelude::*;

use super::*;

/// So many random cases, unless `PROPTEST_CASES` asks for another number. A failure shows its steps
/// and keeps no file.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    const UNASKED: u32 = 256;
    let asked = ProptestConfig::default();
    ProptestConfig {
        cases: if asked.cases == UNASKED {
            count
        } else {
            asked.cases
        },
        failure_persistence: None,
        ..asked
    }
}

/// One step of a random history.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Do {
        is_replication: bool,
        command: Command,
    },
    Pass(u64),
    /// Self-preservation begins or ends.
    Protect(bool),
}

impl Scene {
    /// Takes a step; says what was answered to a command.
    pub(crate) fn take(&mut self, step: &Step) -> Option<Said> {
        match step {
            Step::Do {
                is_replication,
                command,
            } => return Some(self.carry_out(command, *is_replication)),
            Step::Pass(ms) => self.pass(*ms),
            Step::Protect(is_on) => self.expiration_enabled = !is_on,
        }
        None
    }
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let whose = prop::bool::weighted(0.3);
    prop_oneof![
        12 => (whose, command()).prop_map(|(is_replication, command)| Step::Do {
            is_replication,
            command,
        }),
        2 => prop_oneof![Just(1), 1..10_000u64, 10_000..100_000u64].prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Protect),
    ]
}

pub(crate) fn steps(
    count: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), count)
}

/// Either set of rules.
pub(crate) fn rules() -> impl Strategy<Value = Rules> {
    prop_oneof![Just(Rules::default()), Just(Rules::eureka())]
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    let named = || (app(), id());
    prop_oneof![
        6 => described().prop_map(|instance| Command::Register(instance.into())),
        5 => (named(), prop::option::of(dirty()), prop::option::of(status())).prop_map(
            |((app, id), dirty, overridden)| Command::Renew {
                app,
                id,
                renewal: Renewal { dirty, overridden },
            }
        ),
        2 => named().prop_map(|(app, id)| Command::Cancel { app, id, version: None }),
        3 => (named(), status(), prop::option::of(dirty())).prop_map(
            |((app, id), status, dirty)| Command::SetStatus { app, id, status, dirty }
        ),
        2 => (named(), prop::option::of(status()), prop::option::of(dirty())).prop_map(
            |((app, id), status, dirty)| Command::DeleteOverride { app, id, status, dirty }
        ),
        1 => (named(), prop::collection::vec((text(), text()), 0..3)).prop_map(
            |((app, id), entries)| Command::UpdateMetadata { app, id, entries }
        ),
        1 => (0..2_000u64, 0.0..1.0, any::<u64>()).prop_map(
            |(extra_ms, renewal_percent_threshold, seed)| Command::Evict(Eviction {
                extra_ms,
                renewal_percent_threshold,
                seed,
            })
        ),
    ]
}

fn app() -> impl Strategy<Value = AppName> {
    prop_oneof![3 => Just("SHOP"), 1 => Just("CART")].prop_map(AppName::new)
}

fn id() -> impl Strategy<Value = InstanceId> {
    prop_oneof![Just("1"), Just("2"), Just("3")].prop_map(InstanceId::new)
}

fn status() -> impl Strategy<Value = Status> {
    prop::sample::select(Status::ALL.to_vec())
}

fn dirty() -> impl Strategy<Value = i64> {
    100..105i64
}

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![Just("a"), Just("b"), Just("")].prop_map(Arc::from)
}

fn vip() -> impl Strategy<Value = Option<Arc<str>>> {
    let some = prop::sample::select(vec!["a", "b", "a,b", "b,c,", "c,c"]).prop_map(Arc::from);
    prop::option::weighted(0.8, some)
}

fn described() -> impl Strategy<Value = Instance> {
    let status = prop_oneof![3 => Just(Status::Up), 2 => status()];
    let overridden = prop_oneof![6 => Just(Status::Unknown), 1 => self::status()];
    let terms = (
        prop_oneof![Just(10), Just(30), Just(60)],
        prop_oneof![3 => Just(90), 1 => Just(1), 1 => Just(30)],
    );
    (
        app(),
        id(),
        status,
        overridden,
        dirty(),
        terms,
        vip(),
        vip(),
    )
        .prop_map(
            |(app, id, status, overridden, dirty, (interval, duration), plain, secure)| Instance {
                status,
                overridden_status: overridden,
                lease: LeaseTerms {
                    renewal_interval_secs: interval,
                    duration_secs: duration,
                },
                vip_address: plain,
                secure_vip_address: secure,
                ..version(dirty, instance(app.as_str(), id.as_str()))
            },
        )
}
