//! From a lease to what the writers of the wire need.

use crate::registry::change::LeaseImage;
use crate::registry::lease::Lease;
use crate::types::Millis;
use crate::wire::{InstanceView, LeaseTimes};

/// A lease as clients see it: with the clock's last renewal.
pub fn view_of<'a>(lease: &'a Lease, own_instance_id: &str) -> InstanceView<'a> {
    let mut view = view_of_image(&lease.image, own_instance_id);
    view.times.last_renewal = lease.clock.renewed_wall().signed();
    view
}

/// A lease as a peer is told of it; if it is of our own kind, at a moment of the monotonic clock.
pub fn view_for_peer<'a>(
    lease: &'a Lease,
    own_instance_id: &str,
    is_ours_at: Option<Millis>,
) -> InstanceView<'a> {
    let mut view = view_of(lease, own_instance_id);
    view.times.vouched_ms = is_ours_at.map(|now| lease.vouched_ms(now));
    view
}

/// A lease as a change record has it.
pub fn view_of_image<'a>(image: &'a LeaseImage, own_instance_id: &str) -> InstanceView<'a> {
    let instance = &*image.instance;
    InstanceView {
        instance,
        times: LeaseTimes {
            registration: image.registered_at.signed(),
            last_renewal: image.renewed_at.signed(),
            eviction: image.evicted_at.signed(),
            service_up: image.service_up_at.signed(),
            vouched_ms: None,
        },
        is_coordinating: instance.id().as_str() == own_instance_id,
    }
}
