//! A small drive in memory, served at a UNIX socket as fast as the code goes:
//! `cargo run --release --example drive -- drive.sock [design [time-scale]]`

#![allow(clippy::disallowed_methods, reason = "an example has arguments")]

use tantalum_device::Payload;
use tantalum_drive::{Design, Drive};
use tantalum_export::nbd::{Export, Options, Server, Volume};
use tantalum_rt::Runtime;
use tantalum_rt::wall::{Signal, WallOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("where is the socket to be?")?;
    let mut design = Design::preset(&arguments.next().unwrap_or("durassd".to_string()))?;
    // About 30 GiB; memory is taken for what is written.
    design.geometry.blocks /= 15;
    let time_scale = arguments.next().unwrap_or("0".to_string()).parse()?;

    let options = WallOptions { time_scale, ..WallOptions::default() };
    let mut runtime = Runtime::wall_time(1, options)?;
    let rt = runtime.handle();
    let io = rt.io().ok_or("this is the wall clock")?;
    let drive = Drive::new(&rt, &design, Payload::Bytes)?;
    let volume = Volume::new(&rt, drive.clone());
    let exports = vec![Export::new("drive", &volume)];
    let server = Server::new(&rt, exports, Options::default(), |event| eprintln!("{event}"))?;
    let listener = io.listen_unix(&path)?;
    let mut signals = io.signals(&[Signal::Interrupt, Signal::Terminate])?;
    runtime.block_on(async move {
        drive.start().await?;
        println!("nbd+unix:///drive?socket={path}");
        let serving = server.clone();
        rt.spawn_background("clients to come", async move { serving.serve(listener).await });
        signals.next().await?;
        server.stop(tantalum_rt::Nanos::from_secs(5)).await;
        Ok(())
    })?
}
