//! What a drive that runs has done, as metrics for Prometheus (OpenMetrics text).

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::{self, Error, Write};
use tantalum_export::control::{LatencyCounts, Power, StatsReport, StatusReport};

/// What it is, as a server of HTTP says it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All of it.
///
/// # Errors
/// If a metric can not be written, which is not so.
pub fn metrics(status: StatusReport, stats: StatsReport) -> Result<String, Error> {
    let mut registry = Registry::with_prefix("tantalum");
    registry.register_collector(Box::new(Sample { status, stats }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

struct Sample {
    status: StatusReport,
    stats: StatsReport,
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
        self.flash(&mut out)?;
        self.memory(&mut out)?;
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
            "worn_out",
            "Whether the drive can only be read, for ever",
            &i64::from(status.worn_out),
        )?;
        out.gauge("capacity_bytes", "What the drive promises", &wide(status.capacity_bytes))?;
        out.gauge("clock_seconds", "The clock of the drive", &seconds(stats.now_ns))?;
        out.gauge(
            "real_clock_seconds",
            "Real time since the process has the drive",
            &seconds(stats.real_now_ns),
        )?;
        out.counter("cuts", "How often this process cut the power", &stats.outages.cuts)?;
        out.counter(
            "incomplete_dumps",
            "Emergency dumps that were not complete, that for a killed process included",
            &stats.outages.incomplete,
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

    fn flash(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let d = &self.stats.drive;
        for (name, help, value) in [
            ("host_written_bytes", "Bytes written by the host", d.host_write_bytes),
            ("host_read_bytes", "Bytes read by the host", d.host_read_bytes),
            ("flash_programmed_bytes", "Bytes of pages programmed", d.flash_program_bytes),
            ("moved_bytes", "Bytes moved by collection", d.moved_bytes),
            ("levelled_bytes", "Of these, moved to level wear", d.levelled_bytes),
            ("map_programmed_bytes", "Bytes of pages programmed with the map", d.map_bytes),
            ("dump_programmed_bytes", "Bytes of pages programmed in dumps", d.dump_bytes),
            ("flash_reads", "Read operations of the flash array", d.flash_reads),
            ("erases", "Erase operations", d.erases),
            ("refused_writes", "Writes refused for want of space", d.refused_writes),
        ] {
            out.counter(name, help, &value)?;
        }
        let waits = [("buffer", d.buffer_wait_ns), ("space", d.space_wait_ns)];
        out.counters(
            "wait_seconds",
            "Time waited for room in the buffer (by commands) and for free units (by flushers)",
            waits.iter().map(|(what, ns)| ([("what", *what)], seconds(*ns))),
        )?;
        if let Some(u) = &self.stats.units {
            let units = [
                ("free", u.free),
                ("open", u.open),
                ("full", u.full),
                ("map", u.map),
                ("dump", u.dump),
                ("bad", u.bad),
            ];
            let units = units.iter().map(|(role, n)| ([("role", *role)], wide(*n)));
            out.gauges("units", "Erase units by what they are there for", units)?;
        }
        if let Some(w) = &self.stats.wear {
            let wear = [("min", w.min as f64), ("mean", w.mean), ("max", w.max as f64)];
            let wear = wear.iter().map(|(of, n)| ([("of", *of)], *n));
            out.gauges("unit_erases", "Erases of a unit", wear)?;
        }
        Ok(())
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

    fn memory(&self, out: &mut Out<'_>) -> Result<(), Error> {
        let (buffer, map) = (&self.stats.buffer, &self.stats.map);
        out.gauge("buffer_pages", "Pages that the write buffer can hold", &wide(buffer.pages))?;
        out.gauge("buffer_used_pages", "Pages in the write buffer", &wide(buffer.used))?;
        out.gauge(
            "map_entries_limit",
            "Map entries that may be in memory alone",
            &wide(map.entries),
        )?;
        out.gauge("map_unstored_entries", "Map entries in memory alone", &wide(map.unstored))?;
        out.gauge(
            "mapped_pages",
            "Logical pages that the map says are on flash",
            &wide(map.mapped_pages),
        )?;
        if let Some(e) = &self.stats.energy {
            let energy = [("there", e.there_j), ("needed", e.needed_j), ("worst", e.worst_j)];
            let energy = energy.iter().map(|(what, joules)| ([("what", *what)], *joules));
            out.gauges(
                "energy_joules",
                "Energy in the capacitors, what a cut would take now at most, and at worst",
                energy,
            )?;
        }
        Ok(())
    }
}

/// Gauges are signed.
fn wide(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
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

    fn gauges<'a, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (One<'a>, V)>,
    ) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: &impl EncodeCounterValue,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<[(&str, &str); 0], _, f64>(value, None)
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

/// A small page for people.
pub fn page(status: &StatusReport, stats: &StatsReport) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5>\
         <title>tantalum</title><style>body{font:15px/1.5 sans-serif;margin:2em}\
         pre{font:13px/1.5 monospace}</style><h1>A drive that runs</h1><pre>",
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
