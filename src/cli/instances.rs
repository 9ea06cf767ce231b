//! Instances as the list of applications shows them, as a table.

use serde_json::Value;

use super::changes::text;
use super::screen::{Cell, Paint, Table};

/// One instance of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) app: String,
    pub(super) id: String,
    pub(super) status: String,
    /// The operator's word, if there is one.
    pub(super) override_: Option<String>,
    pub(super) address: String,
    pub(super) vip: String,
}

/// The instances of a `/eureka/apps` document, in its order. An object stands for an array of one, as
/// other servers write it.
pub(super) fn listed(document: &Value) -> Vec<Listed> {
    let mut all = Vec::new();
    for app in each(&document["applications"]["application"]) {
        for instance in each(&app["instance"]) {
            all.push(of(text(app, "name"), instance));
        }
    }
    all
}

fn of(app: &str, instance: &Value) -> Listed {
    let host = text(instance, "hostName");
    let id = match text(instance, "instanceId") {
        "" => host,
        id => id,
    };
    let open = |name: &str| {
        let port = &instance[name];
        let is_open = port["@enabled"] == "true" || port["@enabled"] == true;
        is_open.then(|| port["$"].to_string().replace('"', ""))
    };
    let mut address = host.to_owned();
    for port in ["port", "securePort"].into_iter().filter_map(open) {
        address.push(if address.len() == host.len() {
            ':'
        } else {
            ','
        });
        address.push_str(&port);
    }
    Listed {
        app: app.to_owned(),
        id: id.to_owned(),
        status: text(instance, "status").to_owned(),
        override_: ["overriddenStatus", "overriddenstatus"]
            .into_iter()
            .map(|name| text(instance, name))
            .find(|status| !status.is_empty() && *status != "UNKNOWN")
            .map(ToOwned::to_owned),
        address,
        vip: text(instance, "vipAddress").to_owned(),
    }
}

fn each(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        Value::Null => &[],
        one => std::slice::from_ref(one),
    }
}

pub(super) fn table(instances: &[Listed]) -> Table {
    let mut table = Table::new(&["APP", "INSTANCE", "STATUS", "OVERRIDE", "ADDRESS", "VIP"]);
    for instance in instances {
        let override_ = instance.override_.as_deref();
        table.row([
            Cell::painted(&instance.app, Paint::Bold),
            Cell::new(&instance.id),
            Cell::painted(&instance.status, Paint::of_status(&instance.status)),
            Cell::painted(
                override_.unwrap_or("-"),
                Paint::of_status(override_.unwrap_or("-")),
            ),
            Cell::new(&instance.address),
            Cell::new(&instance.vip),
        ]);
    }
    table
}

/// `3 instances of 2 applications`.
pub(super) fn count(instances: &[Listed]) -> String {
    let mut apps: Vec<&str> = instances.iter().map(|one| one.app.as_str()).collect();
    apps.sort_unstable();
    apps.dedup();
    let many = |count: usize| if count == 1 { "" } else { "s" };
    format!(
        "{} instance{} of {} application{}",
        instances.len(),
        many(instances.len()),
        apps.len(),
        many(apps.len())
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instances_are_found_in_lists_of_every_server() {
        let instance = json!({
            "instanceId": "i-1", "hostName": "h", "status": "UP", "overriddenStatus": "UNKNOWN",
            "port": {"$": 80, "@enabled": "true"}, "securePort": {"$": "443", "@enabled": "false"},
            "vipAddress": "v",
        });
        let array =
            json!({"applications": {"application": [{"name": "A", "instance": [instance]}]}});
        let single = json!({"applications": {"application": {"name": "A", "instance": instance}}});
        assert_eq!(listed(&array), listed(&single));
        let one = &listed(&array)[0];
        assert_eq!((one.id.as_str(), one.address.as_str()), ("i-1", "h:80"));
        assert_eq!(one.override_, None);
        assert_eq!(count(&listed(&array)), "1 instance of 1 application");
        assert!(listed(&json!({"applications": 7})).is_empty());
    }
}
