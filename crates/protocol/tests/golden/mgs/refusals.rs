//! What no correct peer sends.

use multigrain_protocol::{Kind, LockMessage, MgsMessage as Word, PageMessage};
use multigrain_types::Consistency;

use super::{eager, shared};
use crate::cluster::{Cluster, M};
use crate::refusals::refused;

#[test]
fn a_client_refuses_data_nobody_asked_for_and_acknowledgements_of_nothing() {
    for body in [Word::ReadData, Word::WriteData, Word::ReleaseAck] {
        assert_eq!(refused(&mut eager(2), 1, 0, body.about(M)), "client");
        assert_eq!(refused(&mut shared(2, &[1], &[]), 1, 0, body.about(M)), "client");
        assert_eq!(refused(&mut shared(2, &[], &[1]), 1, 0, body.about(M)), "client");
    }
}

#[test]
fn a_client_refuses_data_of_the_other_kind() {
    for (asked, body) in [(Kind::Read, Word::WriteData), (Kind::Write, Word::ReadData)] {
        let mut cluster = eager(2);
        cluster.fault(1, asked);
        assert_eq!(refused(&mut cluster, 1, 0, body.about(M)), "client");
    }
}

#[test]
fn a_client_refuses_to_give_up_what_it_does_not_have() {
    let bodies = [Word::Invalidate, Word::SingleWriterInvalidate, Word::SingleWriterGrant];
    for body in bodies {
        let mut cluster = eager(2);
        assert_eq!(refused(&mut cluster, 1, 0, body.about(M)), "client");
        cluster.fault(1, Kind::Read);
        assert_eq!(refused(&mut cluster, 1, 0, body.about(M)), "client");
    }
    for body in [Word::SingleWriterInvalidate, Word::SingleWriterGrant] {
        assert_eq!(refused(&mut shared(2, &[1], &[]), 1, 0, body.about(M)), "client");
    }
}

#[test]
fn a_client_obeys_the_home_alone() {
    let bodies = [
        Word::ReadData,
        Word::WriteData,
        Word::ReleaseAck,
        Word::Invalidate,
        Word::SingleWriterInvalidate,
        Word::SingleWriterGrant,
    ];
    for body in bodies {
        assert_eq!(refused(&mut shared(3, &[], &[1]), 1, 2, body.about(M)), "client");
    }
}

#[test]
fn who_is_not_the_home_refuses_what_is_meant_for_it() {
    let bodies = [
        Word::ReadRequest,
        Word::WriteRequest,
        Word::Release,
        Word::WriteNotify,
        Word::Ack,
        Word::Diff,
        Word::SingleWriterData,
        Word::SingleWriterAck,
    ];
    for body in bodies {
        assert_eq!(refused(&mut eager(3), 1, 2, body.about(M)), "server");
    }
}

#[test]
fn a_server_refuses_answers_nobody_awaits() {
    let bodies = [Word::Ack, Word::Diff, Word::SingleWriterData, Word::SingleWriterAck];
    for body in bodies {
        assert_eq!(refused(&mut eager(3), 0, 1, body.about(M)), "server");
        let mut cluster = shared(4, &[3], &[1, 2]);
        assert_eq!(refused(&mut cluster, 0, 1, body.about(M)), "server");
        // Nor from a bystander while a release is in progress.
        cluster.release(1);
        cluster.deliver_from(1, 0);
        assert_eq!(refused(&mut cluster, 0, 0, body.about(M)), "server");
    }
}

#[test]
fn a_server_refuses_the_wrong_answer() {
    // 1WGR wants ACK1W.
    for body in [Word::Ack, Word::Diff, Word::SingleWriterData] {
        let mut cluster = shared(2, &[], &[1]);
        cluster.release(1);
        cluster.deliver_from(1, 0);
        assert_eq!(refused(&mut cluster, 0, 1, body.about(M)), "server");
    }
    // 1WINV wants 1WDATA.
    for body in [Word::Ack, Word::Diff, Word::SingleWriterAck] {
        let mut cluster = shared(3, &[2], &[1]);
        cluster.release(1);
        cluster.deliver_from(1, 0);
        assert_eq!(refused(&mut cluster, 0, 1, body.about(M)), "server");
    }
}

#[test]
fn a_server_refuses_data_that_would_overwrite_what_others_wrote() {
    // INV wants a diff of a writer and nothing of a reader: a whole page is the keeper's alone.
    for (readers, writers) in [(&[3][..], &[1, 2][..]), (&[1][..], &[2][..])] {
        let mut cluster = shared(4, readers, writers);
        cluster.release(2);
        cluster.deliver_from(2, 0);
        assert_eq!(refused(&mut cluster, 0, 1, Word::SingleWriterData.about(M)), "server");
    }
}

#[test]
fn a_server_refuses_requests_of_who_has_the_copy_or_has_asked() {
    for body in [Word::ReadRequest, Word::WriteRequest] {
        assert_eq!(refused(&mut shared(2, &[1], &[]), 0, 1, body.about(M)), "server");
        assert_eq!(refused(&mut shared(2, &[], &[1]), 0, 1, body.about(M)), "server");
        let mut cluster = shared(3, &[2], &[1]);
        cluster.release(1);
        cluster.deliver_from(1, 0);
        for from in [1, 2] {
            assert_eq!(refused(&mut cluster, 0, from, body.about(M)), "server");
        }
    }
    assert_eq!(refused(&mut shared(2, &[], &[1]), 0, 1, Word::WriteNotify.about(M)), "server");
    // In single-writer mode nothing is released.
    assert_eq!(refused(&mut eager(2), 0, 1, Word::Release.about(M)), "server");
}

#[test]
fn words_of_another_consistency_are_refused() {
    let page = PageMessage::Request { kind: Kind::Read }.about(M);
    assert_eq!(refused(&mut eager(2), 0, 1, page), "minipage");
    let word = Word::ReadRequest.about(M);
    assert_eq!(refused(&mut Cluster::new(2, 0, 0), 0, 1, word), "minipage");
    let mut lazy = Cluster::of(Consistency::LazyRelease, 2, 0, 0);
    assert_eq!(refused(&mut lazy, 0, 1, word), "minipage");
    assert_eq!(refused(&mut lazy, 1, 0, LockMessage::Grant.about(0)), "synchronization");
}
