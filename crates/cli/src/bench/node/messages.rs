//! Messages of the transport alone: a second mesh beside the job's, and raw sockets of the same
//! kind. A round trip of equal messages, halved.
#![expect(unsafe_code, reason = "payloads are sent from and received into raw memory")]

use super::NodeArgs;
use super::team::Team;
use crate::bench::clock::timed;
use crate::bench::options::{Transport, WaitMode};
use crate::bench::row::{Row, size_name};
use crate::bench::samples::Samples;
use anyhow::{Context, Result, ensure};
use core::time::Duration;
use multigrain_transport::{
    Address, BootConfig, Conditions, Destination, Header, LostReason, Mesh, Payload, Sink, Timeout,
};
use multigrain_types::NodeId;
use std::time::Instant;

/// Payloads: none, and those of Table 1.
const SIZES: [usize; 4] = [0, 512, 1024, 4096];
const BATCH: usize = 64;
const KIND: u8 = 1;
const SUBJECT: u64 = 1;
/// As the runtime's adaptive waiting does it.
const POLL_FOR: Duration = Duration::from_micros(60);

/// Measures all sizes between nodes 0 and 1.
pub(super) fn measure(team: &mut Team, args: &NodeArgs) -> Result<()> {
    let mesh = boot(team, args.transport)?;
    let mut end = End { place: vec![1; 4096], received: 0, lost: None };
    for bytes in SIZES {
        let line = Header::BYTES + bytes;
        let (mut ours, mut raw) = (Samples::default(), Samples::default());
        let rounds = (args.samples / BATCH).max(1);
        for round in 0..=rounds {
            team.barrier()?;
            let (floor, times) = if team.measures() {
                let floor = team.raw.there_and_back(BATCH, line)?;
                (floor, ping(&mesh, &mut end, bytes, args.wait)?)
            } else {
                team.raw.echo_same(BATCH, line)?;
                echo(&mesh, &mut end, bytes, args.wait)?;
                Default::default()
            };
            if round > 0 {
                raw.append(floor);
                ours.append(times);
            }
        }
        let operation = match bytes {
            0 => format!("header message send + receive ({} B)", Header::BYTES),
            bytes => format!("data message send + receive ({})", size_name(bytes)),
        };
        let row = Row::new(format!("message-{bytes}"), operation, ours.scaled(0.5).summary());
        team.report(row.over(format!("{line} B, one way"), raw.scaled(0.5).summary()));
    }
    team.barrier()?;
    mesh.leave();
    mesh.close();
    Ok(())
}

/// A second mesh between the same two processes.
fn boot(team: &Team, transport: Transport) -> Result<Mesh> {
    let job = std::env::var("MULTIGRAIN_JOB").context("MULTIGRAIN_JOB")?;
    let wish = |rank: usize| match transport {
        Transport::Unix => format!("unix:@multigrain-mesh-{job}-{rank}"),
        Transport::Tcp => "tcp:127.0.0.1:0".to_owned(),
    };
    let (listener, own) = multigrain_transport::Transport::AUTO.bind(&wish(team.me).parse()?)?;
    let port = match &own {
        Address::Tcp(address) => address.port(),
        Address::Unix(_) => 0,
    };
    team.runtime.publish(format!("mesh-{}", team.me).as_bytes(), port.into())?;
    let peer = |rank: usize| -> Result<Address> {
        let port = team.runtime.lookup(format!("mesh-{rank}").as_bytes())?;
        Ok(match transport {
            Transport::Unix => wish(rank).parse()?,
            Transport::Tcp => format!("tcp:127.0.0.1:{port}").parse()?,
        })
    };
    let network = std::env::var("MULTIGRAIN_EMULATE").ok();
    let config = BootConfig {
        rank: team.runtime.rank(),
        peers: (0..team.nodes).map(peer).collect::<Result<_>>()?,
        listeners: vec![listener],
        job: u128::from_str_radix(&job, 16)?,
        secret: [7; 32],
        credentials: None,
        build: 0,
        deadline: Duration::from_secs(10),
        transport: multigrain_transport::Transport::AUTO,
        conditions: Conditions {
            emulate: network.map(|text| text.parse()).transpose()?,
            part: None,
        },
    };
    Ok(Mesh::boot(config, &mut |line| eprintln!("multigrain: bench: {line}"))?)
}

fn ping(mesh: &Mesh, end: &mut End, bytes: usize, wait: WaitMode) -> Result<Samples> {
    let mut times = Samples::default();
    for _ in 0..BATCH {
        let mut done = Ok(());
        times.push(timed(|| {
            done = put(mesh, NodeId(1), end, bytes).and_then(|()| get(mesh, end, wait));
        }));
        done?;
    }
    Ok(times)
}

fn echo(mesh: &Mesh, end: &mut End, bytes: usize, wait: WaitMode) -> Result<()> {
    for _ in 0..BATCH {
        get(mesh, end, wait)?;
        put(mesh, NodeId(0), end, bytes)?;
    }
    Ok(())
}

fn put(mesh: &Mesh, to: NodeId, end: &End, bytes: usize) -> Result<()> {
    let header = Header { kind: KIND, subject: SUBJECT, ..Header::default() };
    let payload = match bytes {
        0 => Payload::None,
        len => Payload::Memory { ptr: end.place.as_ptr(), len },
    };
    // SAFETY: the place lives longer than the mesh, and is written only by the reply to this.
    Ok(unsafe { mesh.send(to, header, payload) }?)
}

/// Waits for one frame.
fn get(mesh: &Mesh, end: &mut End, wait: WaitMode) -> Result<()> {
    let before = end.received;
    let mut polling_since = None;
    while end.received == before {
        ensure!(end.lost.is_none(), "the mesh ended: {:?}", end.lost);
        let timeout = match wait {
            WaitMode::Spin => Timeout::Now,
            // The runtime, too, looks once before it sleeps.
            WaitMode::Block if polling_since.replace(Instant::now()).is_none() => Timeout::Now,
            WaitMode::Block => Timeout::Forever,
            WaitMode::Adaptive => {
                if polling_since.get_or_insert_with(Instant::now).elapsed() < POLL_FOR {
                    std::thread::yield_now();
                    Timeout::Now
                } else {
                    Timeout::Forever
                }
            }
        };
        mesh.receive(end, timeout);
    }
    Ok(())
}

/// Either end.
struct End {
    place: Vec<u8>,
    received: usize,
    lost: Option<LostReason>,
}

// SAFETY: the place is as long as the longest payload, which is checked, and lives as long as the
// mesh receives.
unsafe impl Sink for End {
    fn place(&mut self, _: NodeId, header: &Header) -> Result<Destination, String> {
        if header.payload > self.place.len() as u64 {
            return Err(format!("{} bytes", header.payload));
        }
        Ok(Destination::At(self.place.as_mut_ptr()))
    }

    fn frame(&mut self, _: NodeId, _: &Header, _: Option<&[u8]>) -> Result<(), String> {
        self.received += 1;
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        self.lost = Some(reason);
    }

    fn refused(&mut self, line: String) {
        eprintln!("multigrain: bench: {line}");
    }
}
