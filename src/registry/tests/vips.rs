//! The vip index: element by element of the comma-separated addresses, old and new.

use super::*;
use crate::types::Lsn;

fn with_vips(id: &str, dirty: i64, plain: Option<&str>, secure: Option<&str>) -> Instance {
    Instance {
        vip_address: plain.map(Into::into),
        secure_vip_address: secure.map(Into::into),
        ..version(dirty, instance("SHOP", id))
    }
}

fn found(scene: &Scene, address: &str, is_secure: bool) -> Option<(Lsn, Vec<String>)> {
    let (lsn, apps) = scene.registry.vip(address, is_secure)?;
    Some((lsn, apps.map(ToString::to_string).collect()))
}

fn shop(lsn: u64) -> (Lsn, Vec<String>) {
    (Lsn(lsn), vec!["SHOP".to_owned()])
}

#[test]
fn each_element_of_a_list_is_an_address_of_its_own_exactly_as_written() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(with_vips("1", 100, Some("a,b, c,,a"), Some("s")));
    for address in ["a", "b", " c"] {
        assert_eq!(found(&scene, address, false), Some(shop(1)), "{address}");
        assert_eq!(found(&scene, address, true), None, "{address}");
    }
    for address in ["a,b", "c", "A", ""] {
        assert_eq!(found(&scene, address, false), None, "{address}");
    }
    assert_eq!(found(&scene, "s", true), Some(shop(1)));
    scene.client(&cancel("SHOP", "1"));
    for address in ["a", "b", " c"] {
        assert_eq!(found(&scene, address, false), None);
    }
}

#[test]
fn a_changed_vip_moves_the_old_and_the_new_one_and_no_other() {
    let mut scene = Scene::new(&Rules::default());
    scene.register(with_vips("1", 100, Some("a"), None));
    scene.register(with_vips("2", 100, Some("a"), None));
    scene.register(with_vips("3", 100, Some("c"), None));
    assert_eq!(found(&scene, "a", false), Some(shop(2)));
    scene.register(with_vips("2", 101, Some("b"), None));
    assert_eq!(found(&scene, "a", false), Some(shop(4)), "it lost a member");
    assert_eq!(found(&scene, "b", false), Some(shop(4)));
    assert_eq!(found(&scene, "c", false), Some(shop(3)));
    scene.client(&cancel("SHOP", "1"));
    assert_eq!(found(&scene, "a", false), None, "nobody is left");
}

#[test]
fn a_vip_lists_every_application_that_has_it() {
    let mut scene = Scene::new(&Rules::default());
    let mut cart = with_vips("9", 100, Some("a"), None);
    cart.app = AppName::new("CART");
    scene.register(cart);
    scene.register(with_vips("1", 100, Some("a"), None));
    let both = vec!["CART".to_owned(), "SHOP".to_owned()];
    assert_eq!(found(&scene, "a", false), Some((Lsn(2), both)));
    scene.client(&cancel("CART", "9"));
    assert_eq!(found(&scene, "a", false), Some(shop(3)));
}

#[test]
fn a_silent_change_moves_neither_vip_nor_application_nor_what_is_visible() {
    for ((name, rules), moved) in both().into_iter().zip([3, 1]) {
        let mut scene = Scene::new(&rules);
        scene.register(with_vips("1", 100, Some("a"), None));
        scene.peer(&renew("SHOP", "1", Some(101), Some(Status::OutOfService)));
        scene.renew("SHOP", "1");
        assert_eq!(scene.registry.lsn(), Lsn(3), "{name}");
        assert_eq!(found(&scene, "a", false), Some(shop(moved)), "{name}");
        let app = scene.registry.app("SHOP").expect("it is there");
        assert_eq!(app.lsn(), Lsn(moved), "{name}");
        assert_eq!(scene.registry.visible_lsn(), Lsn(moved), "{name}");
    }
}
