//! Drives the crate rust-eureka against the Eureka at BASE_URL.
//!
//! usage: eureka-rust-driver BASE_URL     e.g. http://127.0.0.1:8761/eureka
//! Exit status 0 only if every step did what a user of the crate expects.
//! EUREKA_DRIVER_WAIT (seconds, default 75) bounds each wait for the server's caches.
use rust_eureka::{
    request::{DataCenterInfo, DcName, Instance, RegisterRequest, Status},
    EurekaClient,
};
use std::time::{Duration, Instant, SystemTime};

fn step<E: std::fmt::Debug>(name: &str, r: Result<bool, E>) {
    let ok = matches!(r, Ok(true));
    println!("{name:56} {}", if ok { "ok" } else { "FAILED" });
    if !ok {
        println!("{r:?}");
        std::process::exit(1);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arg = std::env::args()
        .nth(1)
        .expect("usage: eureka-rust-driver BASE_URL");
    // The crate wants the server's root and adds /eureka/v2, then /eureka, by itself.
    let root = arg
        .trim_end_matches('/')
        .trim_end_matches("/eureka/v2")
        .trim_end_matches("/eureka")
        .to_owned();
    let wait = std::env::var("EUREKA_DRIVER_WAIT")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(75.0);
    let run = format!(
        "{:08x}",
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .subsec_nanos()
    );
    let (app, host) = (
        format!("RUST-DRIVER-{}", run.to_uppercase()),
        format!("rust-{run}.example"),
    );

    let c = EurekaClient::new("driver", &root);
    let req = RegisterRequest {
        instance: Instance {
            host_name: host.clone(),
            app: app.clone(),
            ip_addr: "127.0.0.1".into(),
            vip_address: "rust-driver".into(),
            secure_vip_address: "rust-driver".into(),
            status: Status::Up,
            port: Some(8080),
            secure_port: Some(8443),
            homepage_url: "http://localhost:8080".into(),
            status_page_url: "http://localhost:8080/status".into(),
            health_check_url: "http://localhost:8080/health".into(),
            data_center_info: DataCenterInfo {
                name: DcName::MyOwn,
                metadata: None,
            },
            lease_info: None,
            metadata: serde_json::Map::new(),
        },
    };
    step(
        "register: as XML, without instanceId",
        c.register(&app, &req).await.map(|_| true),
    );

    let end = Instant::now() + Duration::from_secs_f64(wait);
    let seen = loop {
        let r = c.get_application(&app).await.map(|a| {
            a.application
                .instance
                .iter()
                .any(|i| i.host_name == host && i.port == Some(8080) && i.secure_port == Some(8443))
        });
        if matches!(r, Ok(true)) || Instant::now() > end {
            break r;
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
    };
    step("fetch: GET apps/APP parsed, it is there", seen);

    step("cancel: 2xx", c.deregister(&app, &host).await.map(|_| true));
    let end = Instant::now() + Duration::from_secs_f64(wait);
    let gone = loop {
        let gone = match c.get_application(&app).await {
            Ok(a) => a.application.instance.iter().all(|i| i.host_name != host),
            Err(rust_eureka::errors::EurekaClientError::NotFound) => true,
            Err(_) => false,
        };
        if gone || Instant::now() > end {
            break gone;
        }
        tokio::time::sleep(Duration::from_millis(400)).await;
    };
    step::<()>("cancel: GET apps/APP does not list it", Ok(gone));
}
