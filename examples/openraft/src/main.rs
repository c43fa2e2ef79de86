//! A Raft node of one, whose log is on two files: it takes words, and knows them again when it is
//! started again.
//!
//! `cargo run -- FOLDER [NAME WORD]...`
#![allow(clippy::disallowed_methods, reason = "a program is the edge")]

use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{BasicNode, Config, Raft, SnapshotPolicy};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions};
use tantalum_openraft::kv::{Set, StateMachine, Words};
use tantalum_openraft::{FlashLog, StoreOptions};

const NODE: u64 = 1;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (folder, words) =
        args.split_first().ok_or("usage: tantalum-openraft FOLDER [NAME WORD]...")?;
    let devices = devices(Path::new(folder))?;
    let store = FlashLog::<Words>::open(&devices, StoreOptions::default())?;

    // The snapshots of this state machine are in memory: nothing may be purged, and each
    // start applies the whole log.
    let config = Config { snapshot_policy: SnapshotPolicy::Never, ..Config::default() };
    let state_machine = StateMachine::default();
    let config = Arc::new(config.validate()?);
    let raft = Raft::new(NODE, config, NoNetwork, store, state_machine.clone()).await?;
    if !raft.is_initialized().await? {
        raft.initialize(BTreeMap::from([(NODE, BasicNode::default())])).await?;
    }
    raft.wait(None).current_leader(NODE, "a node of one elects itself").await?;
    raft.ensure_linearizable().await?;

    for pair in words.chunks(2) {
        let [name, word] = pair else { return Err(format!("{} has no word", pair[0]).into()) };
        let before = state_machine.get(name);
        let set = Set { name: name.clone(), word: word.clone() };
        let written = raft.client_write(set).await?;
        println!("{}: {name} = {word}, before {before:?}", written.log_id);
    }
    for (name, word) in state_machine.words() {
        println!("{name} = {word}");
    }
    raft.shutdown().await?;
    Ok(())
}

/// The devices of the log in a folder: two files, made at the first start.
fn devices(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let paths: Vec<PathBuf> = ["a.log", "b.log"].map(|name| folder.join(name)).into();
    if !paths.iter().any(|path| path.exists()) {
        std::fs::create_dir_all(folder)?;
        let options = BlockingOptions::default();
        for path in &paths {
            BlockingLog::make_file(path, 64 << 20, &options)?;
        }
        BlockingLog::create(&paths, None, &CreateOptions::default(), &options)?;
    }
    Ok(paths)
}

/// A node of one has nobody to talk to.
struct NoNetwork;

impl NoNetwork {
    fn unreachable<E: Error>() -> RPCError<u64, BasicNode, E> {
        let nobody = io::Error::new(io::ErrorKind::NotConnected, "there is no other node");
        RPCError::Unreachable(Unreachable::new(&nobody))
    }
}

impl RaftNetworkFactory<Words> for NoNetwork {
    type Network = NoNetwork;

    async fn new_client(&mut self, _target: u64, _node: &BasicNode) -> NoNetwork {
        NoNetwork
    }
}

impl RaftNetwork<Words> for NoNetwork {
    async fn append_entries(
        &mut self,
        _request: AppendEntriesRequest<Words>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(NoNetwork::unreachable())
    }

    async fn install_snapshot(
        &mut self,
        _request: InstallSnapshotRequest<Words>,
        _option: RPCOption,
    ) -> Result<
        InstallSnapshotResponse<u64>,
        RPCError<u64, BasicNode, RaftError<u64, InstallSnapshotError>>,
    > {
        Err(NoNetwork::unreachable())
    }

    async fn vote(
        &mut self,
        _request: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(NoNetwork::unreachable())
    }
}
