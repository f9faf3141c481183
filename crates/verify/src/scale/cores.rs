//! Computing on hosts with few cores: nodes that compute get equal shares of them, as under a fair
//! scheduler.

/// How nodes are placed on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Nodes on one host, consecutive ranks.
    pub nodes: u16,
    /// Cores of one host.
    pub cores: u16,
}

impl Hosts {
    /// A host for each node.
    pub const OWN: Self = Self { nodes: 1, cores: 1 };
}

/// A timer to be set: after so many nanoseconds, with this token.
pub(super) type Alarm = (u64, u64);

/// All cores.
#[derive(Debug)]
pub(super) struct Cores {
    hosts: Hosts,
    each: Vec<Host>,
}

#[derive(Clone, Debug, Default)]
struct Host {
    /// Nodes that compute, and nanoseconds of a core that each still needs.
    busy: Vec<(u16, f64)>,
    /// `busy` is of that time.
    since_ns: u64,
    /// Alarms set; all but the last are stale.
    alarms: u32,
}

impl Cores {
    pub(super) fn new(hosts: Hosts, nodes: u16) -> Self {
        let count = nodes.div_ceil(hosts.nodes.max(1));
        Self { hosts, each: vec![Host::default(); count.into()] }
    }

    /// A node needs a core for so long.
    pub(super) fn begin(&mut self, node: u16, ns: u64, now_ns: u64) -> Alarm {
        let index = node / self.hosts.nodes.max(1);
        let host = &mut self.each[usize::from(index)];
        host.account_work(self.hosts.cores, now_ns);
        #[expect(clippy::cast_precision_loss, reason = "years have 55 bits of nanoseconds")]
        host.busy.push((node, ns as f64));
        host.alarm(self.hosts.cores, index)
    }

    /// The alarm of a token rings: which nodes have finished, and the next alarm of that host.
    pub(super) fn ring(&mut self, token: u64, now_ns: u64) -> (Vec<u16>, Option<Alarm>) {
        let [index, number] = [token >> 32, token & u64::from(u32::MAX)];
        let index = u16::try_from(index).expect("tokens are made by `alarm`");
        let host = &mut self.each[usize::from(index)];
        if number != u64::from(host.alarms) {
            return (Vec::new(), None);
        }
        host.account_work(self.hosts.cores, now_ns);
        // An alarm is rounded up to a nanosecond.
        let done: Vec<u16> =
            host.busy.extract_if(.., |(_, left)| *left <= 0.5).map(|(node, _)| node).collect();
        let more = !host.busy.is_empty();
        (done, more.then(|| host.alarm(self.hosts.cores, index)))
    }
}

impl Host {
    /// What a node gets of a core.
    fn share(&self, cores: u16) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "65,536 nodes at most")]
        let busy = self.busy.len().max(1) as f64;
        (f64::from(cores) / busy).min(1.0)
    }

    fn account_work(&mut self, cores: u16, now_ns: u64) {
        #[expect(clippy::cast_precision_loss, reason = "years have 55 bits of nanoseconds")]
        let got = (now_ns - self.since_ns) as f64 * self.share(cores);
        self.busy.iter_mut().for_each(|(_, left)| *left -= got);
        self.since_ns = now_ns;
    }

    fn alarm(&mut self, cores: u16, index: u16) -> Alarm {
        self.alarms = self.alarms.wrapping_add(1);
        let least = self.busy.iter().fold(f64::INFINITY, |least, &(_, left)| least.min(left));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "what is left was a number of nanoseconds"
        )]
        let after = (least.max(0.0) / self.share(cores)).ceil() as u64;
        (after, u64::from(index) << 32 | u64::from(self.alarms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_nodes_on_two_cores_take_half_as_long_again() {
        let mut cores = Cores::new(Hosts { nodes: 4, cores: 2 }, 4);
        let mut alarm = (0, 0);
        for node in 0..3 {
            alarm = cores.begin(node, 1000, 0);
        }
        assert_eq!(alarm.0, 1500);
        assert_eq!(cores.ring(alarm.1, 1500), (vec![0, 1, 2], None));
    }

    #[test]
    fn alone_a_node_is_not_slowed_and_stale_alarms_are_ignored() {
        let mut cores = Cores::new(Hosts { nodes: 2, cores: 1 }, 2);
        let alone = cores.begin(0, 1000, 0);
        assert_eq!(alone.0, 1000);
        let both = cores.begin(1, 1000, 500);
        assert_eq!(cores.ring(alone.1, 1000), (vec![], None));
        // Node 0 has 500 left at half speed; then node 1 has the core to itself.
        assert_eq!(both.0, 1000);
        let (done, next) = cores.ring(both.1, 1500);
        assert_eq!((done, next.map(|(after, _)| after)), (vec![0], Some(500)));
    }
}
