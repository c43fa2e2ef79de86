//! Devices and mounts for the tests.

use tantalum_device::{Ack, BlockDevice, Caps, Payload, RamDevice, RamOptions};
use tantalum_files::{Files, FormatOptions, MountOptions};
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_sqlite::{Mount, Options, Sqlite};

pub fn caps(ack: Ack, ordered: bool, atomic_unit: u32, mib: u64) -> Caps {
    Caps {
        block_size: 4096,
        blocks: mib * 256,
        ack,
        flush: true,
        ordered,
        atomic_unit,
        thin: false,
        atomic_group: None,
        payload: Payload::Bytes,
    }
}

pub fn device(rt: &Rt, caps: Caps) -> RamDevice {
    let mut options = RamOptions::new(caps);
    options.command = Nanos::from_micros(60);
    options.jitter = Nanos::from_micros(20);
    options.flush = Nanos::from_micros(500);
    RamDevice::new(rt, options)
}

pub async fn format<D: BlockDevice>(rt: &Rt, device: &D) {
    Files::format(rt, device, &FormatOptions::default()).await.unwrap();
}

pub async fn mount<D: BlockDevice + 'static>(rt: &Rt, device: D) -> Mount<D> {
    let files = Files::mount(rt, device, &MountOptions::default()).await.unwrap();
    Mount::new(rt, files, Options::default())
}

/// Runs one guest on a fresh device with durable, ordered writes.
pub fn alone<T: 'static>(mib: u64, main: impl FnOnce(&Sqlite) -> T + 'static) -> T {
    beside_files(mib, |sql, _| main(sql))
}

/// The same, for a guest that also inspects the files.
pub fn beside_files<T: 'static>(
    mib: u64,
    main: impl FnOnce(&Sqlite, Files<RamDevice>) -> T + 'static,
) -> T {
    let mut runtime = Runtime::virtual_time(7);
    let rt = runtime.handle();
    let run = async move {
        let device = device(&rt, caps(Ack::PowerSafe, true, 4096, mib));
        format(&rt, &device).await;
        let files = Files::mount(&rt, device, &MountOptions::default()).await.unwrap();
        let mount = Mount::new(&rt, files.clone(), Options::default());
        mount.guest("alone", |sql| main(sql, files)).await
    };
    runtime.block_on(run).unwrap()
}
