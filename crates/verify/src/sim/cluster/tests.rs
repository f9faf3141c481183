//! Two nodes, driven by hand.

use super::*;
use multigrain_protocol::Kind;

fn pair() -> Cluster<Even> {
    let placed = Placed { manager: NodeId(0), owner: NodeId(0), bytes: 968 };
    Cluster::new(2, vec![placed], Even { service_ns: 0 }, (2, 0))
}

#[test]
fn a_read_fault_takes_a_request_and_a_page() {
    let mut cluster = pair();
    let (minipage, thread) = (cluster.id(0), ThreadId(0));
    cluster.write(NodeId(0), minipage, 7);
    let fault = Input::Fault { thread, minipage, kind: Kind::Read };
    cluster.step(NodeId(1), fault).unwrap();
    let woken = Event::Woken { node: NodeId(1), thread };
    assert_eq!(cluster.next(), Ok(Some(woken)));
    // A header there; a header and the page back.
    assert_eq!(cluster.now_ns(), 10_040 + 11_008);
    assert_eq!(cluster.read(NodeId(1), minipage), Ok(7));
    cluster.step(NodeId(1), Input::Resumed { thread, minipage }).unwrap();
    assert!(cluster.check_rest().is_err(), "the ack is deferred");
    cluster.flush(NodeId(1));
    assert_eq!(cluster.next(), Ok(None));
    cluster.check_rest().unwrap();
    assert_eq!(cluster.traffic(), Traffic { messages: 3, bytes: 3 * 40 + 968 });
}

#[test]
fn frames_that_a_node_has_sent_arrive_after_its_death_unless_it_is_cut_off() {
    for cut_off in [false, true] {
        let mut cluster = pair();
        let words = Words { kind: 64, ..Words::default() };
        cluster.send_control(NodeId(0), NodeId(1), words);
        cluster.kill(NodeId(0), cut_off);
        let control = Event::Control { from: NodeId(0), to: NodeId(1), words };
        if !cut_off {
            assert_eq!(cluster.next(), Ok(Some(control)));
        }
        let lost = Event::Lost { node: NodeId(1), peer: NodeId(0) };
        assert_eq!(cluster.next(), Ok(Some(lost)));
    }
}
