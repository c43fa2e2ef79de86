//! `tantalum energy`: the energy to survive a power loss, and the capacitors for it.

use crate::counted::counted;
use crate::out;
use clap::Args;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::fmt::Write;
use tantalum_drive::{
    Budget, CapacitorType, Component, EnergyModel, Parts, Saving, SavingCount, Service, Voltages,
};

/// Arguments of `tantalum energy`.
#[derive(Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "\
Examples:
  tantalum energy                     the published drive, under three protections
  tantalum energy --design durassd    a preset
  tantalum energy --design mine.toml  a design of your own
  tantalum energy --json --volts 12 --least-volts 6

There are two counts. \"paper\" includes only the mapping table and the metadata of garbage
collection, like the published figures; \"full\" includes all protected memory. The first table
has the joules of each component in each count; they add up to the durability of that count in
the second table. Consistency is the energy to finish operations in flight. Capacitors are for
the full count. The last table, only of the published drive, has the savings by each count.")]
pub struct EnergyArguments {
    /// A preset, or a file with a design (TOML) [default: the 512 GB drive of the publication]
    #[arg(long, value_name = "DESIGN")]
    design: Option<String>,
    /// Print JSON: {"paper": {"durability_j", "consistency_j"}, "full": {...}, "capacitors":
    /// [...]}; without --design these are for full protection, "drives" has all three protections,
    /// and "savings" what they save
    #[arg(long)]
    json: bool,
    /// Voltage of the charged capacitors
    #[arg(long, value_name = "V", default_value_t = 5.0,
          value_parser = crate::units::number)]
    volts: f64,
    /// Lowest voltage at which the drive still works
    #[arg(long, value_name = "V", default_value_t = 2.7,
          value_parser = crate::units::number)]
    least_volts: f64,
    /// Service life of the capacitors in years
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = crate::units::whole::<u32>(0..=50))]
    years: u32,
    /// Temperature over that life in degrees Celsius
    #[arg(long, value_name = "C", default_value_t = 70,
          value_parser = crate::units::whole::<u32>(0..=150))]
    celsius: u32,
}

#[derive(Serialize)]
struct Report {
    name: String,
    chips: u32,
    components: Vec<Need>,
    paper: Budget,
    full: Budget,
    total_j: f64,
    volts: Voltages,
    service: Service,
    farads: f64,
    capacitors: Vec<Parts>,
}

#[derive(Serialize)]
struct Need {
    #[serde(flatten)]
    component: Component,
    /// In the full count.
    energy_j: f64,
    /// In the paper's count.
    paper_j: f64,
}

/// Runs the command; returns the exit code.
pub fn energy(arguments: &EnergyArguments) -> u8 {
    let volts = match Voltages::new(arguments.volts, arguments.least_volts) {
        Ok(volts) => volts,
        Err(e) => return out::error(e, out::USAGE),
    };
    let service = Service { years: arguments.years.into(), celsius: arguments.celsius.into() };
    let models = match &arguments.design {
        None => Ok(EnergyModel::all_published()),
        Some(name) => crate::drive::named(name).and_then(|design| {
            let layout = design.check().map_err(|e| e.to_string())?;
            Ok(vec![EnergyModel::of(&design, &layout)])
        }),
    };
    let models = match models {
        Ok(models) => models,
        Err(e) => return out::error(e, out::USAGE),
    };
    let reports: Vec<_> = models.iter().map(|m| report(m, volts, service)).collect();
    let savings = match arguments.design {
        None => EnergyModel::published_savings(),
        Some(_) => Vec::new(),
    };
    if !arguments.json {
        return out::bytes((text(&reports) + &saved(&savings)).as_bytes());
    }
    /// The first drive, and all of them.
    #[derive(Serialize)]
    struct Drives<'a> {
        #[serde(flatten)]
        first: &'a Report,
        savings: &'a [Saving],
        drives: &'a [Report],
    }
    let json = match (&arguments.design, reports.as_slice()) {
        (None, [first, ..]) => {
            serde_json::to_string_pretty(&Drives { first, savings: &savings, drives: &reports })
        }
        (_, some) => serde_json::to_string_pretty(&some.first()),
    };
    match json {
        Ok(json) => out::bytes((json + "\n").as_bytes()),
        Err(e) => out::error(e, out::FAILED),
    }
}

fn report(model: &EnergyModel, volts: Voltages, service: Service) -> Report {
    let full = model.full();
    let total_j = full.total_j();
    let parts = CapacitorType::all();
    let components = model.memory.iter().map(|c| Need {
        component: c.clone(),
        energy_j: if c.protected { model.programs_j(c.bytes) } else { 0.0 },
        paper_j: if c.published { model.programs_j(c.bytes) } else { 0.0 },
    });
    Report {
        name: model.name.clone(),
        chips: model.chips,
        components: components.collect(),
        paper: model.paper(),
        full,
        total_j,
        volts,
        service,
        farads: volts.farads(total_j),
        capacitors: parts.iter().filter_map(|t| t.parts(total_j, volts, service)).collect(),
    }
}

fn text(reports: &[Report]) -> String {
    let mut text = String::new();
    for (i, r) in reports.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "{} ({})", r.name, counted(r.chips.into(), "chip", "chips"));
        let mut memory = table(["memory", "bytes", "full count, J", "paper's count, J"]);
        for c in &r.components {
            let of = |counts, j: f64| if counts { format!("{j:.4}") } else { "-".into() };
            memory.add_row([
                c.component.name.to_string(),
                c.component.bytes.to_string(),
                of(c.component.protected, c.energy_j),
                of(c.component.published, c.paper_j),
            ]);
        }
        let mut budget = table(["budget", "durability J", "consistency J", "total J"]);
        for (name, b) in [("paper's count", r.paper), ("full count", r.full)] {
            let [d, c, t] =
                [b.durability_j, b.consistency_j, b.total_j()].map(|j| format!("{j:.4}"));
            budget.add_row([name.to_string(), d, c, t]);
        }
        let _ = writeln!(text, "{memory}\n{budget}");
        let free = |c: &&Need| c.component.published && !c.component.protected;
        if let Some(c) = r.components.iter().find(free) {
            let _ = writeln!(
                text,
                "the full count may be below the paper's count, which includes {}: this drive \
                 recovers it at a restart, without energy",
                c.component.name
            );
        }
        if r.total_j <= 0.0 {
            let _ =
                writeln!(text, "no capacitors: the data that a power cut loses was not promised");
            continue;
        }
        let _ = writeln!(
            text,
            "{:.2} mF from {} V down to {} V; after {} years at {} °C:",
            r.farads * 1e3,
            r.volts.charged,
            r.volts.least,
            r.service.years,
            r.service.celsius
        );
        let mut parts = table(["capacitors", "parts", "mm³", "US$", "left %", "J/cm³"]);
        for p in &r.capacitors {
            parts.add_row([
                p.name.clone(),
                p.parts.to_string(),
                format!("{:.0}", p.volume_mm3),
                format!("{:.2}", p.cost_usd),
                format!("{:.0}", p.derating * 100.0),
                format!("{:.2}", p.j_per_cm3),
            ]);
        }
        match r.capacitors.is_empty() {
            true => text.push_str("no type of capacitor is rated for that voltage\n"),
            false => _ = writeln!(text, "{parts}"),
        }
    }
    text
}

/// The savings of the published drive's other protections.
fn saved(savings: &[Saving]) -> String {
    if savings.is_empty() {
        return String::new();
    }
    let mut less = table(["less than with full protection", "published %", "ours %"]);
    for s in savings {
        let of = match s.count {
            SavingCount::Memory => "protected memory",
            SavingCount::Paper => "energy, paper's count",
            SavingCount::Full => "energy, full count",
        };
        less.add_row([
            format!("{}: {of}", s.drive),
            s.published_percent.map_or("-".into(), |p| p.to_string()),
            format!("{:.2}", s.percent),
        ]);
    }
    format!(
        "\n{less}\n\
         97.87 % is the map's share of the memory; 97.73 % come from the energies as they are \
         printed, rounded (3.576 + 0.020 and 0.0618 + 0.020 J)\n"
    )
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
