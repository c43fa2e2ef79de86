//! The counters of a running drive, as metrics for Prometheus (OpenMetrics text).

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, MetricEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::{self, Error, Write};
use tantalum_device::{Field, Metric, Unit, Value};
use tantalum_export::control::{LatencyCounts, Power, StatsReport, StatusReport};

/// The HTTP content type.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics as text.
///
/// # Errors
/// If a metric cannot be written; writing to a string does not fail.
pub fn metrics(
    status: StatusReport,
    stats: StatsReport,
    fields: Vec<Field>,
) -> Result<String, Error> {
    let mut registry = Registry::with_prefix("tantalum");
    registry.register_collector(Box::new(Sample { status, stats, fields }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

struct Sample {
    status: StatusReport,
    stats: StatsReport,
    /// The fields of the box.
    fields: Vec<Field>,
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sample")
    }
}

type One<'a> = [(&'static str, &'a str); 1];

impl Collector for Sample {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        let mut out = Out(encoder);
        self.drive(&mut out)?;
        self.commands(&mut out)?;
        self.described(&mut out)?;
        self.clients(&mut out)
    }
}

impl Sample {
    fn drive(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let (status, stats) = (&self.status, &self.stats);
        out.info(
            "drive",
            "The drive",
            &[
                ("design", status.design.as_str()),
                ("image", status.image.as_deref().unwrap_or_default()),
                ("version", status.program.as_str()),
            ],
        )?;
        out.gauge(
            "power_on",
            "Whether the drive takes commands",
            &i64::from(stats.power == Power::On),
        )?;
        out.gauge(
            "stopped",
            "Whether it refuses writes although it has power, until it is restored",
            &i64::from(status.defect.is_some()),
        )?;
        out.gauge("capacity_bytes", "The capacity of the drive", &wide(status.capacity_bytes))?;
        out.gauge("clock_seconds", "The clock of the drive", &seconds(stats.now_ns))?;
        out.gauge(
            "real_clock_seconds",
            "Real time since the process opened the drive",
            &seconds(stats.real_now_ns),
        )
    }

    fn commands(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let commands = &self.stats.commands;
        let by = |get: fn(&tantalum_export::control::CommandCounts) -> u64| {
            commands.iter().map(move |(kind, c)| ([("kind", kind.as_str())], get(c)))
        };
        out.counters("commands", "Commands that succeeded", by(|c| c.done))?;
        out.counters("failed_commands", "Commands that failed", by(|c| c.failed))?;
        out.counters("command_bytes", "Bytes that commands moved or discarded", by(|c| c.bytes))?;
        out.gauge(
            "commands_under_way",
            "Commands that have not ended",
            &wide(self.stats.under_way),
        )?;
        out.histograms(
            "command_latency_seconds",
            "Latencies of commands that succeeded, by the clock of the drive",
            &self.stats.latency_bounds_ns,
            commands.iter().map(|(kind, c)| ([("kind", kind.as_str())], c.done, &c.latency)),
        )
    }

    /// The metrics of the box: fields of one family together.
    fn described(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let mut families: Vec<(&Metric, Vec<&Field>)> = Vec::new();
        for field in &self.fields {
            let Some(metric) = &field.metric else { continue };
            // An unknown value has no sample.
            if Sampled::of(field).is_none() {
                continue;
            }
            match families.iter_mut().find(|(first, _)| first.family == metric.family) {
                Some((_, fields)) => fields.push(field),
                None => families.push((metric, vec![field])),
            }
        }
        families.iter().try_for_each(|(first, fields)| out.family(first, fields))
    }

    fn clients(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let Some(c) = &self.stats.clients else { return Ok(()) };
        for (name, help, value) in [
            ("clients", "Clients that are connected", c.connected),
            (
                "client_memory_limit_bytes",
                "Memory that may be held for clients",
                c.memory_limit_bytes,
            ),
            ("client_memory_bytes", "Memory that is held for clients", c.memory_bytes),
            ("client_memory_most_bytes", "The most that was held for clients", c.memory_most_bytes),
            ("client_memory_waits", "Requests that wait for memory", c.waiting),
        ] {
            out.gauge(name, help, &wide(value))?;
        }
        Ok(())
    }
}

/// The value of a metric.
#[derive(Clone, Copy)]
enum Sampled {
    Whole(u64),
    Number(f64),
}

impl Sampled {
    /// The sample of a field; times are in seconds.
    fn of(field: &Field) -> Option<Sampled> {
        match (field.unit, &field.value) {
            (Unit::Nanos, Value::Count(ns)) => Some(Sampled::Number(seconds(*ns))),
            (_, Value::Flag(is)) => Some(Sampled::Whole((*is).into())),
            (_, Value::Count(n)) => Some(Sampled::Whole(*n)),
            (_, Value::Number(n)) => Some(Sampled::Number(*n)),
            (_, Value::Unknown | Value::Text(_)) => None,
        }
    }
}

/// Gauges are signed.
fn wide(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn sample(mut out: MetricEncoder<'_>, counter: bool, value: Sampled) -> Result<(), Error> {
    match (counter, value) {
        (true, Sampled::Whole(n)) => out.encode_counter::<[(&str, &str); 0], _, f64>(&n, None),
        (true, Sampled::Number(n)) => out.encode_counter::<[(&str, &str); 0], _, f64>(&n, None),
        (false, Sampled::Whole(n)) => out.encode_gauge(&wide(n)),
        (false, Sampled::Number(n)) => out.encode_gauge(&n),
    }
}

/// Writes metrics.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn info(&mut self, name: &str, help: &str, labels: &impl EncodeLabelSet) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(labels)
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: &impl EncodeGaugeValue,
    ) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(value)
    }

    /// The fields of one family: alone without a label, or each with one.
    fn family(&mut self, first: &Metric, fields: &[&Field]) -> Result<(), Error> {
        let kind = if first.counter { MetricType::Counter } else { MetricType::Gauge };
        let mut family = self.0.encode_descriptor(first.family, first.help, None, kind)?;
        for field in fields {
            let label = field.metric.and_then(|metric| metric.label);
            let value = Sampled::of(field);
            match (label, value) {
                (Some(label), Some(value)) => {
                    sample(family.encode_family(&[label])?, first.counter, value)?;
                }
                (None, Some(value)) => return sample(family, first.counter, value),
                (_, None) => {}
            }
        }
        Ok(())
    }

    fn counters<'a, V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (One<'a>, V)>,
    ) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<[(&str, &str); 0], _, f64>(&value, None)?;
        }
        Ok(())
    }

    fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        bounds: &[u64],
        values: impl Iterator<Item = (One<'a>, u64, &'a LatencyCounts)>,
    ) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, count, latency) in values {
            let mut before = 0;
            let bucket = |(bound, within): (&u64, &u64)| {
                let here = within - std::mem::replace(&mut before, *within);
                (seconds(*bound), here)
            };
            let mut buckets: Vec<_> = bounds.iter().zip(&latency.within).map(bucket).collect();
            buckets.push((f64::INFINITY, count.saturating_sub(before)));
            let mut metric = family.encode_family(&labels)?;
            let sum = seconds(latency.sum_ns);
            metric.encode_histogram::<[(&str, &str); 0]>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

/// All as text, for a browser without scripts.
pub fn page(status: &StatusReport, stats: &StatsReport) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5>\
         <meta name=viewport content=\"width=device-width\"><title>tantalum</title>\
         <style>:root{color-scheme:light dark}body{font:15px/1.5 sans-serif;margin:1em}\
         pre{font:13px/1.5 monospace;white-space:pre-wrap;overflow-wrap:anywhere}</style>\
         <h1>A running drive</h1><pre>",
    );
    page.push_str(&escape(&crate::drive::remote::status_text(status)));
    page.push('\n');
    page.push_str(&escape(&crate::drive::remote::stats_text(stats)));
    // Writing to a string does not fail.
    let _ = write!(
        page,
        "</pre><p><a href=status>status</a> and <a href=stats>stats</a> as JSON, \
         <a href=metrics>metrics</a> for Prometheus</html>"
    );
    page
}
