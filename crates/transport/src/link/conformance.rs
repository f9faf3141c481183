//! What every link promises, over each backend of the list and over what is laid over them. Which backend it was, a test
//! that fails says on stderr.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::{BACKENDS, Backend, Backends, Close, Link, Listener, Transport, emulate};
use crate::address::{Address, AddressKind};
use crate::credentials::{Authority, Credentials};
use crate::handshake::Refusal;
use crate::link::Emulation;
use crate::span::Span;
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use std::sync::atomic::{AtomicU32, Ordering};

const PATIENCE: Duration = Duration::from_secs(10);
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Beyond any latency here.
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

macro_rules! conformance {
    ($($test:ident)*) => {
        conformance! { in plain proven_and_clear tls pinned emulated emulated_over_tls: [$($test)*] }
    };
    (in $($over:ident)*: $tests:tt) => {
        $(mod $over { conformance! { each $over $tests } })*
    };
    (each $over:ident [$($test:ident)*]) => {
        $(
            #[test]
            #[cfg_attr(miri, ignore = "has sockets")]
            fn $test() { super::on_each_backend(super::$over, super::$test); }
        )*
    };
}

conformance! {
    spans_are_sent_and_filled_in_order
    a_receive_takes_what_there_is_and_may_be_cut_anywhere
    a_full_link_takes_a_part_and_is_writable_when_there_is_room
    big_payloads_go_both_ways_at_once
    what_was_sent_is_read_before_the_end_of_the_stream
    a_closed_link_neither_sends_nor_receives
    a_peer_that_is_gone_is_an_error_and_no_signal
    it_is_readable_while_there_is_something_to_receive
    what_it_suppresses_is_received_and_shows_when_resumed
    it_tells_that_the_peer_has_taken_something_if_it_says_so
    memory_that_is_not_mapped_is_an_error
    connecting_where_nobody_listens_fails
    both_ends_are_authenticated_tuned_and_described
    the_time_out_of_a_link_that_was_in_vain_is_taken_back
    another_user_is_refused_where_the_transport_knows_users
    binding_gives_an_address_to_connect_to
}

/// A backend under test: where its links lead, and what makes them at both ends.
struct Place {
    transport: Transport,
    address: Address,
    /// Nodes 0, who accepts, and 1.
    nodes: [Backends; 2],
    /// The kernel copies what is sent and received, and looks where that lies.
    kernel_copies: bool,
    /// What is laid over links.
    network: Option<Emulation>,
}

impl Place {
    fn of(backend: &'static dyn Backend, nodes: [Backends; 2], kernel_copies: bool) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = match backend.addresses() {
            AddressKind::Unix => format!("unix:@mg-link-{}-{next}", std::process::id()),
            // Of this place alone: no other one listens where this one has stopped.
            AddressKind::Tcp => format!("tcp:127.0.{}.{}:0", 27 + next / 200, 1 + next % 200),
        };
        let (transport, address) = (chosen(backend), address.parse().unwrap());
        Self { transport, address, nodes, kernel_copies, network: None }
    }

    fn bind(&self) -> (OwnedFd, Address) {
        self.transport.bind(&self.address).unwrap()
    }

    fn listener(&self, socket: OwnedFd) -> Listener {
        self.nodes[0].listener(socket).unwrap()
    }
}

/// Runs a test over each backend that this is laid over.
fn on_each_backend(lay: impl Fn(&'static dyn Backend) -> Option<Place>, test: impl Fn(&Place)) {
    for &backend in BACKENDS {
        if let Some(place) = lay(backend) {
            eprintln!("over {}:", backend.name());
            test(&place);
        }
    }
}

fn chosen(backend: &dyn Backend) -> Transport {
    backend.name().parse().unwrap()
}

fn plain(backend: &'static dyn Backend) -> Option<Place> {
    let node = || Backends::new(chosen(backend), 0, None).unwrap();
    Some(Place::of(backend, [node(), node()], true))
}

fn tls(backend: &'static dyn Backend) -> Option<Place> {
    with_credentials(backend, |own| own, false)
}

fn pinned(backend: &'static dyn Backend) -> Option<Place> {
    if !backend.addresses().leave_host() {
        return None;
    }
    let made = [(); 2].map(|()| Credentials::of_its_own().unwrap());
    let pins = made.each_ref().map(|(_, pin)| *pin);
    let node = |(own, _): (Credentials, _)| {
        Backends::new(chosen(backend), 0xabc, Some(&own.trusting(pins.to_vec()))).unwrap()
    };
    Some(Place::of(backend, made.map(node), false))
}

fn proven_and_clear(backend: &'static dyn Backend) -> Option<Place> {
    with_credentials(backend, Credentials::in_clear, true)
}

/// Over another, a network as fast as can be tested soon, and slow enough to be noticed.
fn emulated(backend: &'static dyn Backend) -> Option<Place> {
    plain(backend).map(slower)
}

fn emulated_over_tls(backend: &'static dyn Backend) -> Option<Place> {
    tls(backend).map(slower)
}

fn slower(place: Place) -> Place {
    Place { kernel_copies: false, network: Some("300us,4G".parse().unwrap()), ..place }
}

fn with_credentials(
    backend: &'static dyn Backend,
    wish: impl Fn(Credentials) -> Credentials,
    kernel_copies: bool,
) -> Option<Place> {
    const JOB: u128 = 0xabc;
    if !backend.addresses().leave_host() {
        return None;
    }
    let authority = Authority::new(JOB).unwrap();
    let node = |rank| {
        let own = wish(authority.issue(NodeId(rank)).unwrap());
        Backends::new(chosen(backend), JOB, Some(&own)).unwrap()
    };
    Some(Place::of(backend, [node(0), node(1)], kernel_copies))
}

/// A connected link: who connected, and who accepted.
fn links(place: &Place) -> [Box<dyn Link>; 2] {
    let (socket, bound) = place.bind();
    let listener = place.listener(socket);
    assert_eq!(listener.accept().unwrap_err(), Errno::AGAIN, "nobody has connected");
    let one = connected(place, &bound);
    let links = [one, accepted(&listener)];
    // Each goes on when the other has.
    while links.each_ref().map(|link| link.authenticate()) != [Poll::Ready(Ok(())); 2] {
        std::thread::yield_now();
    }
    for (link, node) in links.iter().zip([0, 1]) {
        assert_eq!(link.may_be(NodeId(node)), Ok(()));
    }
    match place.network {
        Some(network) => links.map(|link| emulate(link, network).unwrap()),
        None => links,
    }
}

fn connected(place: &Place, address: &Address) -> Box<dyn Link> {
    let link = place.nodes[1].connect(address, PATIENCE).unwrap();
    ready(&*link, PollFlags::OUT);
    link.connected().unwrap();
    link
}

/// The link of who has connected.
fn accepted(listener: &Listener) -> Box<dyn Link> {
    loop {
        match listener.accept() {
            Err(Errno::AGAIN) => std::thread::yield_now(),
            accepted => return accepted.unwrap(),
        }
    }
}

/// Sleeps until the link is ready for this.
fn ready(link: &dyn Link, flags: PollFlags) {
    let timeout = Timespec::try_from(PATIENCE).unwrap();
    assert!(wait(link, flags, &timeout), "it never becomes {flags:?}");
}

fn is_ready(link: &dyn Link, flags: PollFlags) -> bool {
    // What is held back is due a moment later.
    let timed = flags == PollFlags::IN && link.timer().is_some();
    wait(link, flags, if timed { &SOON } else { &NOW })
}

/// Whether it is ready for this within that time; as the mesh sleeps.
fn wait(link: &dyn Link, flags: PollFlags, time: &Timespec) -> bool {
    let input = flags == PollFlags::IN;
    let socket = Some(link.readiness()).filter(|_| !input || link.takes_input());
    let timer = link.timer().filter(|_| input);
    let watched = socket.into_iter().chain(timer);
    let mut set: Vec<_> = watched.map(|fd| PollFd::from_borrowed_fd(fd, flags)).collect();
    poll(&mut set, Some(time)).unwrap() > 0 && set.iter().any(|one| one.revents().intersects(flags))
}

fn send(link: &dyn Link, pieces: &[&[u8]]) -> Result<usize, Errno> {
    let mut spans: Vec<Span> = pieces.iter().map(|piece| Span::of(piece)).collect();
    // SAFETY: the spans are references.
    unsafe { link.send(&mut spans) }
}

fn receive(link: &dyn Link, room: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the span is a reference that nobody else has.
    unsafe { link.receive(&mut [Span::of_mut(room)]) }
}

/// What it receives next, sleeping until then.
fn receive_next(link: &dyn Link, room: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match receive(link, room) {
            Err(Errno::AGAIN | Errno::INTR) => ready(link, PollFlags::IN),
            received => return received,
        }
    }
}

/// Receives so many bytes, sleeping in between.
fn receive_all(link: &dyn Link, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    let mut have = 0;
    while have < bytes {
        match receive_next(link, &mut all[have..]) {
            Ok(0) => panic!("the stream ends after {have} of {bytes} bytes"),
            Ok(got) => have += got,
            Err(errno) => panic!("{errno} after {have} of {bytes} bytes"),
        }
    }
    all
}

/// Sends until nothing fits; the number of bytes.
fn fill(link: &dyn Link, bytes: &[u8]) -> usize {
    let mut sent = 0;
    loop {
        match send(link, &[&bytes[sent % bytes.len()..]]).unwrap() {
            0 => return sent,
            taken => sent += taken,
        }
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..=250).cycle().take(bytes).collect()
}

fn spans_are_sent_and_filled_in_order(place: &Place) {
    let [one, other] = links(place);
    for (from, to) in [(&one, &other), (&other, &one)] {
        assert_eq!(send(&**from, &[b"one", b"", b"two", b"three"]), Ok(11));
        assert_eq!(send(&**from, &[b"four"]), Ok(4));
        ready(&**to, PollFlags::IN);
        let (mut first, mut second) = ([0; 5], [0; 10]);
        let mut have = 0;
        while have < 15 {
            let mut spans = [Span::of_mut(&mut first), Span::of_mut(&mut second)];
            let left = spans.map(|span| span.len().min(have));
            let skip = left[0];
            spans[0] = Span::at(spans[0].start().wrapping_add(skip), 5 - skip);
            let skip = have - skip;
            spans[1] = Span::at(spans[1].start().wrapping_add(skip), 10 - skip);
            // SAFETY: the spans are references that nobody else uses meanwhile.
            match unsafe { to.receive(&mut spans) } {
                Ok(got) => have += got,
                Err(errno) => assert_eq!(errno, Errno::AGAIN),
            }
        }
        assert_eq!((&first, &second), (b"onetw", b"othreefour"));
    }
}

fn a_receive_takes_what_there_is_and_may_be_cut_anywhere(place: &Place) {
    let [one, other] = links(place);
    let mut room = [0; 8];
    assert_eq!(receive(&*other, &mut room), Err(Errno::AGAIN));
    assert_eq!(send(&*one, &[b"abc"]), Ok(3));
    assert_eq!(
        receive_next(&*other, &mut room),
        Ok(3),
        "fewer than there is room for: all is read"
    );
    assert!(!other.holds_input());
    assert_eq!(receive(&*other, &mut room), Err(Errno::AGAIN));
    let bytes = pattern(1000);
    assert_eq!(send(&*one, &[&bytes]), Ok(1000));
    let mut all: Vec<u8> = Vec::new();
    while all.len() < 1000 {
        let step = 1 + all.len() % 7;
        match receive(&*other, &mut room[..step]) {
            Ok(got) => all.extend(&room[..got]),
            Err(errno) => assert_eq!(errno, Errno::AGAIN),
        }
    }
    assert_eq!(all, bytes);
}

fn a_full_link_takes_a_part_and_is_writable_when_there_is_room(place: &Place) {
    let [one, other] = links(place);
    // A prime: what is cut is cut at odd places.
    let bytes = pattern(999_983);
    let sent = fill(&*one, &bytes);
    assert!(sent > 0);
    // What was not taken is offered again.
    let rest = &bytes[sent % bytes.len()..];
    assert_eq!(send(&*one, &[rest]), Ok(0), "a full link is no error");
    assert!(!is_ready(&*one, PollFlags::OUT), "full, but writable");
    let got = receive_all(&*other, sent);
    assert!(got.iter().eq(bytes.iter().cycle().take(sent)));
    ready(&*one, PollFlags::OUT);
    let more = send(&*one, &[rest]).unwrap();
    assert!(more > 0);
    assert_eq!(receive_all(&*other, more), rest[..more]);
}

fn big_payloads_go_both_ways_at_once(place: &Place) {
    const BYTES: usize = 16 << 20;
    let links = links(place);
    let bytes = pattern(BYTES);
    std::thread::scope(|scope| {
        for link in &links {
            let bytes = &bytes;
            scope.spawn(move || {
                let (mut sent, mut have, mut all) = (0, 0, vec![0; BYTES]);
                while sent < BYTES || have < BYTES {
                    if sent < BYTES {
                        // Headers and pages, as the mesh sends them.
                        let middle = (sent + 40).min(BYTES);
                        let pieces = [&bytes[sent..middle], &bytes[middle..]];
                        sent += send(&**link, &pieces).unwrap();
                    }
                    match receive(&**link, &mut all[have..]) {
                        Ok(got) => have += got,
                        Err(errno) => assert_eq!(errno, Errno::AGAIN),
                    }
                }
                assert!(all == *bytes);
            });
        }
    });
}

fn what_was_sent_is_read_before_the_end_of_the_stream(place: &Place) {
    let [one, other] = links(place);
    assert_eq!(send(&*one, &[b"last words"]), Ok(10));
    one.close(Close::Sending);
    assert!(send(&*one, &[b"x"]).is_err(), "it is closed");
    assert_eq!(receive_all(&*other, 10), b"last words");
    assert_eq!(receive_next(&*other, &mut [0; 4]), Ok(0));
    assert_eq!(receive(&*other, &mut [0; 4]), Ok(0), "the end stays");
    // The other half goes on.
    assert_eq!(send(&*other, &[b"still here"]), Ok(10));
    assert_eq!(receive_all(&*one, 10), b"still here");
}

fn a_closed_link_neither_sends_nor_receives(place: &Place) {
    let [one, other] = links(place);
    one.close(Close::Both);
    one.close(Close::Both);
    assert!(send(&*one, &[b"x"]).is_err());
    assert_eq!(receive(&*one, &mut [0; 4]), Ok(0));
    assert_eq!(receive_next(&*other, &mut [0; 4]), Ok(0));
}

fn a_peer_that_is_gone_is_an_error_and_no_signal(place: &Place) {
    let [one, other] = links(place);
    // What it leaves unread resets the connection.
    assert_eq!(send(&*one, &[b"unread"]), Ok(6));
    ready(&*other, PollFlags::IN);
    drop(other);
    assert_eq!(receive_next(&*one, &mut [0; 4]), Err(Errno::CONNRESET));
    assert!(matches!(send(&*one, &[b"x"]), Err(Errno::PIPE | Errno::CONNRESET)));
    assert_eq!(receive(&*one, &mut [0; 4]), Ok(0), "it is told once, then the stream has ended");
}

fn it_is_readable_while_there_is_something_to_receive(place: &Place) {
    let [one, other] = links(place);
    assert!(!is_ready(&*other, PollFlags::IN));
    assert!(is_ready(&*other, PollFlags::OUT));
    assert_eq!(send(&*one, &[b"ab"]), Ok(2));
    assert_eq!(receive_next(&*other, &mut [0; 1]), Ok(1));
    assert!(other.holds_input() || is_ready(&*other, PollFlags::IN), "one byte is left");
    assert_eq!(receive(&*other, &mut [0; 2]), Ok(1));
    assert!(!is_ready(&*other, PollFlags::IN) && !other.holds_input());
    drop(one);
    ready(&*other, PollFlags::IN);
}

fn what_it_suppresses_is_received_and_shows_when_resumed(place: &Place) {
    let [one, other] = links(place);
    let can = other.suppress_wakeups(true).is_ok();
    assert_eq!(send(&*one, &[b"ab"]), Ok(2));
    // Until it has arrived.
    let mut room = [0; 1];
    while receive(&*other, &mut room) == Err(Errno::AGAIN) {}
    assert_eq!(is_ready(&*other, PollFlags::IN), !can);
    if can {
        other.suppress_wakeups(false).unwrap();
    }
    assert!(other.holds_input() || is_ready(&*other, PollFlags::IN), "one byte is left");
    assert_eq!(receive(&*other, &mut [0; 4]), Ok(1));
    // The end shows.
    if can {
        other.suppress_wakeups(true).unwrap();
    }
    one.close(Close::Sending);
    assert_eq!(receive_next(&*other, &mut [0; 4]), Ok(0));
}

fn it_tells_that_the_peer_has_taken_something_if_it_says_so(place: &Place) {
    let [one, other] = links(place);
    let set = epoll::create(CreateFlags::CLOEXEC).unwrap();
    let interest = EventFlags::OUT | EventFlags::ET;
    epoll::add(&set, one.readiness(), EventData::new_u64(1), interest).unwrap();
    let events = |timeout: &Timespec| {
        let mut room: Vec<Event> = Vec::with_capacity(4);
        epoll::wait(&set, rustix::buffer::spare_capacity(&mut room), Some(timeout)).unwrap()
    };
    // What is new at the start: it is writable.
    assert_eq!(events(&NOW), 1);
    assert_eq!(send(&*one, &[b"request"]), Ok(7));
    assert_eq!(receive_all(&*other, 7), b"request");
    let told = events(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 }) > 0;
    assert!(told || !one.tells_taken(), "it says that it tells");
}

fn memory_that_is_not_mapped_is_an_error(place: &Place) {
    if !place.kernel_copies {
        return;
    }
    let [one, other] = links(place);
    let nowhere = || [Span::at(core::ptr::without_provenance_mut(1 << 12), 8)];
    // SAFETY: the span is not mapped, which the contract allows.
    assert_eq!(unsafe { one.send(&mut nowhere()) }, Err(Errno::FAULT));
    assert_eq!(send(&*one, &[b"bytes"]), Ok(5));
    ready(&*other, PollFlags::IN);
    // SAFETY: the span is not mapped: nothing is written.
    assert_eq!(unsafe { other.receive(&mut nowhere()) }, Err(Errno::FAULT));
}

fn connecting_where_nobody_listens_fails(place: &Place) {
    let (socket, bound) = place.bind();
    drop(socket);
    let failed = match place.nodes[1].connect(&bound, PATIENCE) {
        Ok(link) => {
            ready(&*link, PollFlags::OUT);
            link.connected()
        }
        Err(errno) => Err(errno),
    };
    assert_eq!(failed, Err(Errno::CONNREFUSED));
}

fn both_ends_are_authenticated_tuned_and_described(place: &Place) {
    for link in links(place) {
        assert_eq!(link.authenticate(), Poll::Ready(Ok(())));
        link.tune().unwrap();
        let who = link.describe();
        assert!(!who.is_empty() && !who.contains("unknown") && !who.contains('\n'), "{who}");
    }
}

/// As after an outage of the network: what is sent arrives again (ADR 45).
fn the_time_out_of_a_link_that_was_in_vain_is_taken_back(place: &Place) {
    if matches!(place.address, Address::Unix(_)) {
        return;
    }
    for link in links(place) {
        sockopt::set_tcp_user_timeout(link.readiness(), 4_000).unwrap();
        link.look_after();
        assert_eq!(sockopt::tcp_user_timeout(link.readiness()), Ok(0));
    }
}

fn another_user_is_refused_where_the_transport_knows_users(place: &Place) {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("not tried: only root can act as another user");
    }
    let other = Uid::from_raw(65_534);
    let (socket, bound) = place.bind();
    let listener = place.listener(socket);
    let connecting = || {
        // Of this thread alone.
        set_thread_res_uid(other, other, other).unwrap();
        connected(place, &bound)
    };
    let _theirs = std::thread::scope(|scope| scope.spawn(connecting).join().unwrap());
    let refused =
        accepted(&listener).authenticate() == Poll::Ready(Err(Refusal::User(other.as_raw())));
    assert_eq!(refused, matches!(bound, Address::Unix(_)));
}

fn binding_gives_an_address_to_connect_to(place: &Place) {
    let (_socket, bound) = place.bind();
    assert!(!matches!(bound, Address::Tcp(bound) if bound.port() == 0));
    assert_eq!(bound.to_string().parse(), Ok(bound.clone()), "it reads back what it prints");
    let refused = place.transport.bind(&bound).unwrap_err();
    assert!(refused.to_string().contains("cannot listen at"), "{refused}");
}
