//! provisional
use std::sync::Arc;
fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut config = eurekad::config::Config::default();
    use eurekad::config::*;
    use std::time::Duration;
    for a in std::env::args().skip(1) {
        let Some((k, v)) = a.trim_start_matches("--").split_once('=') else { continue };
        let ms = || Duration::from_millis(v.parse().unwrap());
        let port = config.server.port;
        match k {
            "server.port" => { config.server.port = v.parse()?; let p=config.server.port; config.instance.instance_id=format!("localhost:eureka-server:{p}"); }
            "eurekad.profile" if v == "eureka" => config.compatibility = Compatibility::of(Profile::Eureka),
            "eureka.server.use-read-only-response-cache" => config.cache.read_only_level = v == "true",
            "eureka.server.response-cache-update-interval-ms" => config.cache.update_interval = ms(),
            "eureka.server.retention-time-in-m-s-in-delta-queue" => config.registry.delta_retention = ms(),
            "eureka.server.delta-retention-timer-interval-in-ms" => config.registry.delta_trim_interval = ms(),
            "eureka.server.response-cache-auto-expiration-in-seconds" => config.cache.expire_after = Duration::from_secs(v.parse()?),
            "eureka.server.disable-delta" => config.registry.delta = v != "true",
            "eureka.server.enable-self-preservation" => config.registry.self_preservation = v == "true",
            "eureka.server.eviction-interval-timer-in-ms" => config.registry.eviction_interval = ms(),
            "eureka.server.renewal-percent-threshold" => config.registry.renewal_percent_threshold = v.parse()?,
            "eureka.server.wait-time-in-ms-when-sync-empty" => config.registry.wait_when_sync_empty = ms(),
            "eureka.instance.registry.default-open-for-traffic-count" => config.registry.open_for_traffic_count = v.parse()?,
            "eureka.server.experimental.registration.validation.dataCenterInfoId" => config.registry.validate_data_center_id = v == "true",
            "eureka.dashboard.enabled" => config.dashboard.enabled = v == "true",
            "eureka.dashboard.path" => config.dashboard.path = v.into(),
            "management.endpoints.web.exposure.include" => config.management.include = vec![v.into()],
            _ => {}
        }
        let _ = port;
    }
    let rt = tokio::runtime::Runtime::new()?;
    rt.block_on(async move {
        let node = eurekad::node::Node::start(config, Arc::new(eurekad::clock::SystemClock::new())).await?;
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        term.recv().await;
        node.stop().await
    })
}
