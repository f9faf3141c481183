//! Local client and remote client: arcs 1 to 27.

use super::{Mark as M, Row, row, runs, spared};

pub(super) const ROWS: &[Row] = &[
    row(
        &[1],
        ["RTLBFault", "pagestate != INV", "mapping -> TLB, tlb_dir += src", ""],
        runs(
            "read fault in Read or Clean, any in Dirty or Single",
            "page tables agree again, wake",
            M::SpuriousFault,
        ),
    ),
    row(
        &[2, 5],
        ["WTLBFault", "pagestate == READ", "mapping -> TLB, tlb_dir += src", "UPGRADE => l_home"],
        runs("write fault in Read", "twin, open, Dirty; no message within the node", M::Upgrade),
    ),
    row(
        &[3, 4],
        ["WTLBFault", "pagestate == WRITE", "mapping -> TLB, tlb_dir += src, DUQ += addr", ""],
        runs("write fault in Clean", "queue, twin, open, Dirty; asks nobody", M::WriteClean),
    ),
    row(
        &[5],
        ["RTLBFault", "pagestate == INV", "", "RREQ => g_home"],
        runs("read fault in Invalid", "RREQ, Busy", M::AskRead),
    ),
    row(
        &[5],
        ["WTLBFault", "pagestate == INV", "", "WREQ => g_home"],
        runs("write fault in Invalid", "WREQ, Busy", M::AskWrite),
    ),
    row(
        &[6],
        ["RDAT", "", "map page, tlb_dir = {src}, pagestate = READ", ""],
        runs("RDAT in Busy", "install read-only, wake all, Read", M::ReadData),
    ),
    row(
        &[7],
        ["WDAT", "", "map page, tlb_dir = {src}, pagestate = WRITE, DUQ += addr", ""],
        runs("WDAT in Busy", "queue, twin, install writable, wake all, Dirty", M::WriteData),
    ),
    row(
        &[8],
        ["UP_ACK", "", "DUQ += addr", ""],
        runs("write fault in Read", "queue, before the page is opened", M::Upgrade),
    ),
    row(
        &[8],
        ["Release", "", "addr = DUQ->head, DUQ = DUQ->tail", "REL => g_home (addr)"],
        runs("Release in Dirty", "REL for each minipage of the queue at once", M::Release),
    ),
    row(
        &[9],
        ["RACK", "DUQ == 0", "", ""],
        runs(
            "RACK, a release open",
            "the tracker lets go what waited for the last one",
            M::ReleaseAck,
        ),
    ),
    row(
        &[10],
        ["RACK", "DUQ != 0", "addr = DUQ->head, DUQ = DUQ->tail", "REL => g_home (addr)"],
        spared(
            "A flush sends every REL at once and counts the RACKs: one round trip instead of one a minipage.",
        ),
    ),
    row(
        &[11],
        ["PINV", "", "invalidate TLB", "PINV_ACK => l_home"],
        spared(
            "The threads of a node share a page table: a change of protection is the invalidation, and the kernel's shootdown returns when every core has acknowledged it.",
        ),
    ),
    row(
        &[12],
        ["PINV", "", "invalidate TLB, DUQ -= addr", "PINV_ACK => l_home"],
        spared(
            "As arc 11; the one queue of the node loses the entry with INV (arc 19) and 1WINV (arc 22).",
        ),
    ),
    row(
        &[13, 14],
        ["P2INV", "", "DUQ -= addr", "P2INV_ACK => l_home"],
        spared("The one queue of the node loses the entry with 1WGR (arc 25)."),
    ),
    row(
        &[15],
        ["UPGRADE", "", "make twin, pagestate = WRITE", "UP_ACK => src, WNOTIFY => g_home"],
        runs("write fault in Read", "twin, WNOTIFY", M::Upgrade),
    ),
    row(
        &[16],
        ["INV", "pagestate == READ", "clean page, free page, count = tlb_dir", "PINV => tlb_dir"],
        runs("INV in Read", "close, Invalid", M::InvalidateRead),
    ),
    row(
        &[19],
        ["INV", "pagestate == WRITE", "make diff, free page, count = tlb_dir", "PINV => tlb_dir"],
        runs(
            "INV in Dirty, its REL on its way",
            "leave the queue, close, Invalid",
            M::InvalidateWritten,
        ),
    ),
    row(
        &[22],
        ["1WINV", "", "clean page, count = tlb_dir", "PINV => tlb_dir"],
        runs("1WINV in Dirty", "leave the queue, read-only, drop twin, Clean", M::SingleInvalidate),
    ),
    row(
        &[25],
        ["1WGR", "", "count = tlb_dir", "P2INV => tlb_dir"],
        runs("1WGR in Dirty", "leave the queue, keep the twin, Single", M::SingleGrant),
    ),
    row(
        &[17, 20, 23],
        ["PINV_ACK", "count != 0", "count = count - 1", ""],
        spared("The kernel counts (arc 11)."),
    ),
    row(
        &[26],
        ["P2INV_ACK", "count != 0", "count = count - 1", ""],
        spared("There is one queue, behind the lock of the tracker."),
    ),
    row(
        &[18],
        ["PINV_ACK", "count == 0", "tlb_dir = 0, pagestate = INV", "ACK => g_home"],
        runs("INV in Read", "ACK", M::InvalidateRead),
    ),
    row(
        &[21],
        ["PINV_ACK", "count == 0", "tlb_dir = 0, pagestate = INV", "DIFF => g_home"],
        runs(
            "INV in Single, with a twin",
            "DIFF (at home, where writes are in place: ACK), drop twin",
            M::InvalidateSingle,
        ),
    ),
    row(
        &[24],
        ["PINV_ACK", "count == 0", "tlb_dir = 0", "1WDATA => g_home"],
        runs("1WINV in Dirty", "1WDATA", M::SingleInvalidate),
    ),
    row(
        &[27],
        ["P2INV_ACK", "count == 0", "", "ACK1W => g_home"],
        runs("1WGR in Dirty", "ACK1W", M::SingleGrant),
    ),
];
