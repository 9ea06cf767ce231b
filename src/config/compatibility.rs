//! The profile and its knobs: where this server does better than the Java one, and how to have the
//! old behaviour back, all at once (`eurekad.profile=eureka`) or one by one.
//!
//! Whoever decides something asks the knob, never the profile: the profile only sets defaults.

use super::bind::Binder;
use super::choice::{choice, words};
use super::property::Origin;
use super::store::LimitsConfig;
use crate::registry::rules::{
    LeaseExpiry, MetadataUpdate, OverrideLift, OverrideScope, ReplicatedVersion, Rules,
    SameStatusOverride, StatusByRenewal, Thresholds, UnknownOverride,
};

choice! {
    /// `eurekad.profile`: which defaults the knobs of [`Compatibility`] have.
    Profile {
        /// Known defects of the original are mended.
        Default = "default",
        /// Whatever shows on the wire is as the recorded Java server does it.
        Eureka = "eureka",
    }
}

// The rules of the core, by the words of their settings; what each means stands with the rule.
words!(LeaseExpiry { Exact = "exact", Eureka = "eureka" });
words!(OverrideScope { Instance = "instance", Id = "id" });
words!(StatusByRenewal { Change = "change", Silent = "silent" });
words!(MetadataUpdate { Change = "change", Reregister = "re-register" });
words!(SameStatusOverride { Stored = "stored", Ignored = "ignored" });
words!(OverrideLift { Reported = "reported", Unknown = "unknown" });
words!(UnknownOverride { Lift = "lift", Store = "store" });
words!(ReplicatedVersion { Kept = "kept", Original = "eureka" });
words!(Thresholds { Leases = "leases", Eureka = "eureka" });

choice! {
    /// `eurekad.decoder`: how request bodies are read.
    Decoder {
        /// What can be understood is taken, the unknown is skipped.
        Tolerant = "tolerant",
        /// What the original refuses is refused.
        Exact = "exact",
    }
}

choice! {
    /// `eurekad.negotiation`: how `Accept` and `Accept-Encoding` are read.
    Negotiation {
        /// Once, with q-values; the label always says what the body is.
        Tolerant = "tolerant",
        /// As the original: `json` anywhere in the header, `gzip;q=0` means gzip.
        Exact = "exact",
    }
}

choice! {
    /// `eurekad.gzip-request-bodies`: bodies with `Content-Encoding: gzip`.
    GzipRequestBodies {
        /// Decompressed, within the limits.
        Accept = "accept",
        /// 400.
        Refuse = "refuse",
    }
}

choice! {
    /// `eurekad.compress`: which answers may be gzip.
    Compress {
        /// Every answer, if the client accepts it.
        Any = "any",
        /// Only `/apps` and `/apps/delta`.
        Lists = "lists",
    }
}

choice! {
    /// `eurekad.bad-input-status`: the answer to a status or timestamp that cannot be read.
    BadInputStatus {
        /// 400 Bad Request.
        BadRequest = "400",
        /// 500 Internal Server Error.
        ServerError = "500",
    }
}

choice! {
    /// `eurekad.paths`: paths that are not quite as the original wants them.
    Paths {
        /// Doubled slashes count as one, `/eureka` may be missing (`/v2/apps`, `/apps`), and `%2F`
        /// is part of a name.
        Lenient = "lenient",
        /// 404, and 400 for `%2F`.
        Exact = "exact",
    }
}

choice! {
    /// `eurekad.xml-single-status`: the status in the XML of a single instance.
    XmlSingleStatus {
        /// The status.
        True = "true",
        /// The vocabulary of version 1: `OUT_OF_SERVICE` and UNKNOWN are written DOWN.
        V1 = "v1",
    }
}

choice! {
    /// `eurekad.status-document`: the shape of `GET /status`.
    StatusDocument {
        /// Valid JSON and XML.
        Valid = "valid",
        /// XML only, as the original; JSON is 500.
        Eureka = "eureka",
    }
}

/// Every knob in which the two profiles differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compatibility {
    /// The profile that the defaults came from; for display, never to decide by.
    pub profile: Profile,
    pub lease_expiry: LeaseExpiry,
    pub override_scope: OverrideScope,
    pub status_by_renewal: StatusByRenewal,
    pub metadata_update: MetadataUpdate,
    pub same_status_override: SameStatusOverride,
    pub override_lift: OverrideLift,
    pub unknown_override: UnknownOverride,
    pub replicated_version: ReplicatedVersion,
    pub decoder: Decoder,
    pub negotiation: Negotiation,
    pub gzip_request_bodies: GzipRequestBodies,
    pub compress: Compress,
    pub bad_input_status: BadInputStatus,
    pub thresholds: Thresholds,
    pub paths: Paths,
    pub xml_single_status: XmlSingleStatus,
    pub status_document: StatusDocument,
    /// The read-only cache level is refreshed as soon as the log has moved, not only by its timer.
    pub response_cache_early_refresh: bool,
    /// `/serverinfo/statusoverrides` is there.
    pub serverinfo: bool,
}

impl Compatibility {
    /// The knobs that are rules of the core.
    pub fn rules(&self, sync_when_timestamp_differs: bool, limits: &LimitsConfig) -> Rules {
        Rules {
            lease_expiry: self.lease_expiry,
            override_scope: self.override_scope,
            status_by_renewal: self.status_by_renewal,
            metadata_update: self.metadata_update,
            same_status_override: self.same_status_override,
            override_lift: self.override_lift,
            unknown_override: self.unknown_override,
            replicated_version: self.replicated_version,
            thresholds: self.thresholds,
            sync_when_timestamp_differs,
            metadata: limits.of_metadata(),
            instances_max: Some(limits.instances).filter(|most| *most > 0),
        }
    }

    /// The knobs as a profile sets them.
    pub fn of(profile: Profile) -> Self {
        match profile {
            Profile::Default => Self {
                profile,
                lease_expiry: LeaseExpiry::Exact,
                override_scope: OverrideScope::Instance,
                status_by_renewal: StatusByRenewal::Change,
                metadata_update: MetadataUpdate::Change,
                same_status_override: SameStatusOverride::Stored,
                override_lift: OverrideLift::Reported,
                unknown_override: UnknownOverride::Lift,
                replicated_version: ReplicatedVersion::Kept,
                decoder: Decoder::Tolerant,
                negotiation: Negotiation::Tolerant,
                gzip_request_bodies: GzipRequestBodies::Accept,
                compress: Compress::Any,
                bad_input_status: BadInputStatus::BadRequest,
                thresholds: Thresholds::Leases,
                paths: Paths::Lenient,
                xml_single_status: XmlSingleStatus::True,
                status_document: StatusDocument::Valid,
                response_cache_early_refresh: true,
                serverinfo: true,
            },
            Profile::Eureka => Self {
                profile,
                lease_expiry: LeaseExpiry::Eureka,
                override_scope: OverrideScope::Id,
                status_by_renewal: StatusByRenewal::Silent,
                metadata_update: MetadataUpdate::Reregister,
                same_status_override: SameStatusOverride::Ignored,
                override_lift: OverrideLift::Unknown,
                unknown_override: UnknownOverride::Store,
                replicated_version: ReplicatedVersion::Original,
                decoder: Decoder::Exact,
                negotiation: Negotiation::Exact,
                gzip_request_bodies: GzipRequestBodies::Refuse,
                compress: Compress::Lists,
                bad_input_status: BadInputStatus::ServerError,
                thresholds: Thresholds::Eureka,
                paths: Paths::Exact,
                xml_single_status: XmlSingleStatus::V1,
                status_document: StatusDocument::Eureka,
                response_cache_early_refresh: false,
                serverinfo: false,
            },
        }
    }
}

impl Default for Compatibility {
    fn default() -> Self {
        Self::of(Profile::Default)
    }
}

impl Compatibility {
    pub(super) fn bind(b: &mut Binder<'_>) -> Self {
        let profile = b.choice("eurekad.profile", Profile::default());
        let d = Self::of(profile);
        if profile == Profile::Eureka {
            b.unset = Origin::Profile;
        }
        let knobs = Self {
            profile,
            lease_expiry: b.choice("eurekad.lease-expiry", d.lease_expiry),
            override_scope: b.choice("eurekad.override-scope", d.override_scope),
            status_by_renewal: b.choice("eurekad.status-by-renewal", d.status_by_renewal),
            metadata_update: b.choice("eurekad.metadata-update", d.metadata_update),
            same_status_override: b.choice("eurekad.same-status-override", d.same_status_override),
            override_lift: b.choice("eurekad.override-lift", d.override_lift),
            unknown_override: b.choice("eurekad.unknown-override", d.unknown_override),
            replicated_version: b.choice("eurekad.replicated-version", d.replicated_version),
            decoder: b.choice("eurekad.decoder", d.decoder),
            negotiation: b.choice("eurekad.negotiation", d.negotiation),
            gzip_request_bodies: b.choice("eurekad.gzip-request-bodies", d.gzip_request_bodies),
            compress: b.choice("eurekad.compress", d.compress),
            bad_input_status: b.choice("eurekad.bad-input-status", d.bad_input_status),
            thresholds: b.choice("eurekad.thresholds", d.thresholds),
            paths: b.choice("eurekad.paths", d.paths),
            xml_single_status: b.choice("eurekad.xml-single-status", d.xml_single_status),
            status_document: b.choice("eurekad.status-document", d.status_document),
            response_cache_early_refresh: b.switch(
                &["eurekad.response-cache-early-refresh"],
                d.response_cache_early_refresh,
            ),
            serverinfo: b.switch(&["eurekad.serverinfo"], d.serverinfo),
        };
        b.unset = Origin::Default;
        knobs
    }
}
