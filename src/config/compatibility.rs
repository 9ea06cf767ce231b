//! The profile and its knobs: where this server does better than the Java one, and how to have the
//! old behaviour back, all at once (`eurekad.profile=eureka`) or one by one.
//!
//! Whoever decides something asks the knob, never the profile: the profile only sets defaults.

use super::bind::Binder;
use super::choice::choice;
use super::property::Origin;

choice! {
    /// `eurekad.profile`: which defaults the knobs of [`Compatibility`] have.
    Profile {
        /// Known defects of the original are mended.
        Default = "default",
        /// Whatever shows on the wire is as the recorded Java server does it.
        Eureka = "eureka",
    }
}

choice! {
    /// `eurekad.lease-expiry`: how long a lease lives after a renewal.
    LeaseExpiry {
        /// Its duration.
        Exact = "exact",
        /// Twice its duration, and `lastRenewalTimestamp` lies one duration in the future.
        Eureka = "eureka",
    }
}

choice! {
    /// `eurekad.override-scope`: what an operator's status belongs to.
    OverrideScope {
        /// One instance of one application.
        Instance = "instance",
        /// An instance id, whatever the application.
        Id = "id",
    }
}

choice! {
    /// `eurekad.status-by-renewal`: what happens when a renewal brings another effective status.
    StatusByRenewal {
        /// It is a change like any other: in the delta, in the caches, at the peers.
        Change = "change",
        /// The instance shows it, and no delta tells of it.
        Silent = "silent",
    }
}

choice! {
    /// `eurekad.metadata-update`: what `PUT .../metadata` does besides the metadata.
    MetadataUpdate {
        /// Nothing but moving the dirty timestamp.
        Change = "change",
        /// It registers the instance anew: new lease, new `registrationTimestamp`.
        ReRegister = "re-register",
    }
}

choice! {
    /// `eurekad.same-status-override`: an override to the status that an instance has already.
    SameStatusOverride {
        /// Kept: an operator's word counts.
        Stored = "stored",
        /// Forgotten at once.
        Ignored = "ignored",
    }
}

choice! {
    /// `eurekad.override-lift`: the status after an override was deleted without a value.
    OverrideLift {
        /// The status that the instance last reported.
        Reported = "reported",
        /// UNKNOWN, until the instance registers again.
        Unknown = "unknown",
    }
}

choice! {
    /// `eurekad.unknown-override`: what `PUT .../status?value=UNKNOWN` means.
    UnknownOverride {
        /// The override is lifted.
        Lift = "lift",
        /// UNKNOWN is stored as the override.
        Store = "store",
    }
}

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
    /// `eurekad.thresholds`: how the expected renewals are counted.
    Thresholds {
        /// The sum over the leases that exist, each by its own interval.
        Leases = "leases",
        /// A counter of clients with one phantom, moved by registrations and the 15-minute timer.
        Eureka = "eureka",
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
                metadata_update: MetadataUpdate::ReRegister,
                same_status_override: SameStatusOverride::Ignored,
                override_lift: OverrideLift::Unknown,
                unknown_override: UnknownOverride::Store,
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
