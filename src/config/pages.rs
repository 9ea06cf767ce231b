//! The page at `/` and the actuator endpoints.

use super::bind::Binder;
use super::choice::choice;
use super::server::parse_path;

/// `eureka.dashboard.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DashboardConfig {
    /// `eureka.dashboard.enabled`.
    pub enabled: bool,
    /// `eureka.dashboard.path`: begins with a slash; ends with one only if it is `/`.
    pub path: String,
}

impl Default for DashboardConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            path: "/".to_owned(),
        }
    }
}

choice! {
    /// `management.endpoint.health.show-details`.
    ShowDetails {
        /// The status alone.
        Never = "never",
        /// To whoever is logged in.
        WhenAuthorized = "when-authorized",
        /// To everybody.
        Always = "always",
    }
}

/// `management.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementConfig {
    /// `management.endpoints.web.exposure.include`: endpoint ids, or `*` for all.
    pub include: Vec<String>,
    /// `management.endpoints.web.exposure.exclude`: wins over `include`.
    pub exclude: Vec<String>,
    /// `management.endpoints.web.base-path`: begins with a slash; empty is the root.
    pub base_path: String,
    /// `management.endpoint.health.show-details`.
    pub health_details: ShowDetails,
}

impl ManagementConfig {
    /// Whether the endpoint `id` is served.
    pub fn is_exposed(&self, id: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|entry| entry == "*" || entry == id);
        named(&self.include) && !named(&self.exclude)
    }
}

impl Default for ManagementConfig {
    fn default() -> Self {
        Self {
            include: vec!["health".to_owned()],
            exclude: Vec::new(),
            base_path: "/actuator".to_owned(),
            health_details: ShowDetails::default(),
        }
    }
}

impl DashboardConfig {
    pub(super) fn bind(b: &mut Binder<'_>) -> Self {
        let d = Self::default();
        Self {
            enabled: b.switch(&["eureka.dashboard.enabled"], d.enabled),
            path: b.other(
                &["eureka.dashboard.path"],
                d.path,
                |text| {
                    // Spring takes `dash` for `/dash`.
                    let path = parse_path(&format!("/{}", text.trim_start_matches('/')))?;
                    Some(if path.is_empty() {
                        "/".to_owned()
                    } else {
                        path
                    })
                },
                String::clone,
                "a path such as / or /dashboard",
            ),
        }
    }
}

impl ManagementConfig {
    pub(super) fn bind(b: &mut Binder<'_>) -> Self {
        let d = Self::default();
        Self {
            include: b.list("management.endpoints.web.exposure.include", d.include),
            exclude: b.list("management.endpoints.web.exposure.exclude", d.exclude),
            base_path: b.other(
                &["management.endpoints.web.base-path"],
                d.base_path,
                parse_path,
                String::clone,
                "a path that begins with a slash, such as /actuator",
            ),
            health_details: b.choice("management.endpoint.health.show-details", d.health_details),
        }
    }
}
